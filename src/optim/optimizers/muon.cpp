#include "optim/optimizers/muon.h"

#include <algorithm>
#include <cmath>

#include "kernels/newton_schulz/op.h"
#include "recipe/optimizers/optimizers.h"

namespace longhaul::optim {

Muon::Muon(const recipe::OptimOptions& options, Members given)
    : Optimizer(std::move(given)),
      options_(options),
      momentum_(recipe::momentum_of(options)),
      directions_(comm::Reduction::kSum, members().precision.master),
      orthogonals_(comm::Reduction::kSum, members().precision.master) {
  for (const Shard& shard : shards()) {
    Matrix matrix{.shard = shard, .momentum = ShardState(shard, "momentum", options, members().seed)};
    matrix.cut = !shard.cut().empty();
    if (matrix.cut) {
      matrix.direction = directions_.reserve(shard.cut(), shard.spec().elements());
      matrix.orthogonal = orthogonals_.reserve(shard.cut(), shard.spec().elements());
    }
    matrices_.push_back(std::move(matrix));
  }
  deal_out();
  add_phase({"momentum", &directions_, [this](const StepSettings& settings) { follow(settings); }});
  add_phase({"orthogonal", &orthogonals_, [this](const StepSettings&) { orthogonalise(); }});
  add_phase({"update", nullptr, [this](const StepSettings& settings) { update(settings); }});
}

// Dearest first, each to the rank of its group that has least to do. All ranks of a group find the same.
void Muon::deal_out() {
  struct Group {
    layout::AxisSet over;
    size_t own = 0;  // this rank's place in it
    std::vector<double> load;
  };
  std::vector<Group> groups;
  std::vector<Matrix*> dearest;
  for (Matrix& matrix : matrices_) {
    if (matrix.cut) dearest.push_back(&matrix);
  }
  const auto cost = [](const Matrix* matrix) {
    const double rows = static_cast<double>(matrix->shard.global_shape()[0]),
                 columns = static_cast<double>(matrix->shard.global_shape()[1]);
    return rows * columns * std::min(rows, columns);
  };
  std::ranges::stable_sort(dearest, std::ranges::greater{}, cost);
  const layout::MeshRank& place = members().parameters.place();
  for (Matrix* matrix : dearest) {
    const layout::AxisSet over = matrix->shard.cut();
    auto group = std::ranges::find(groups, over, &Group::over);
    if (group == groups.end()) {
      Group made{.over = over};
      size_t ranks = 1;
      for (const layout::Axis axis : over.axes()) {
        made.own = made.own * static_cast<size_t>(place.mesh.size(axis)) +
                   static_cast<size_t>(place.coordinate(axis));
        ranks *= static_cast<size_t>(place.mesh.size(axis));
      }
      made.load.resize(ranks);
      group = groups.insert(groups.end(), made);
    }
    const auto least = std::ranges::min_element(group->load);
    *least += cost(matrix);
    matrix->mine = static_cast<size_t>(least - group->load.begin()) == group->own;
  }
}

Tensor Muon::own_box(const Matrix& matrix, const Partials& partials, const Partials::Place& place) const {
  Tensor box = partials[place].view(matrix.shard.global_shape());
  const layout::Rectangle& own = matrix.shard.of().own;
  for (size_t d = 0; d < own.length.size(); ++d)
    box = box.narrow(static_cast<int64_t>(d), own.offset[d], own.length[d]);
  return box;
}

Tensor Muon::direction(Matrix& matrix, const StepSettings& settings) const {
  const Tensor g = matrix.shard.gradient.to(matrix.shard.master.scalar_type()) *
                   (settings.gradient_scale * (1 - momentum_));
  const Tensor momentum = matrix.momentum.take().mul_(momentum_).add_(g);
  matrix.momentum.put(momentum, next_step());
  return options_.nesterov ? g.add_(momentum, momentum_) : momentum;
}

void Muon::follow(const StepSettings& settings) {
  for (Matrix& matrix : matrices_) {
    if (matrix.cut) own_box(matrix, directions_, matrix.direction).copy_(direction(matrix, settings));
  }
}

// In groups, so that few directions wait for their products beside each other, and all threads have some.
void Muon::in_groups(const std::function<bool(const Matrix&)>& which,
                     const std::function<Tensor(Matrix&)>& from,
                     const std::function<void(Matrix&, const Tensor&)>& to) {
  constexpr int64_t kElements = 1 << 22;
  std::vector<Matrix*> group;
  std::vector<Tensor> directions;
  int64_t elements = 0;
  const auto work = [&] {
    const std::vector<Tensor> results =
        kernels::newton_schulz(directions, options_.muon_iterations, members().precision.compute);
    for (size_t i = 0; i < group.size(); ++i) to(*group[i], results[i]);
    group.clear(), directions.clear(), elements = 0;
  };
  for (Matrix& matrix : matrices_) {
    if (!which(matrix)) continue;
    group.push_back(&matrix);
    directions.push_back(from(matrix));
    elements += directions.back().numel();
    if (elements >= kElements) work();
  }
  work();
}

void Muon::orthogonalise() {
  const auto whole = [](const Matrix& matrix, const Partials& partials, const Partials::Place& place) {
    return partials[place].view(matrix.shard.global_shape());
  };
  in_groups([](const Matrix& matrix) { return matrix.cut && matrix.mine; },
            [&](Matrix& matrix) { return whole(matrix, directions_, matrix.direction); },
            [&](Matrix& matrix, const Tensor& result) {
              whole(matrix, orthogonals_, matrix.orthogonal).copy_(result);
            });
  directions_.release();
}

void Muon::move(Matrix& matrix, const Tensor& orthogonal, const StepSettings& settings) const {
  const Shard& shard = matrix.shard;
  const double rows = static_cast<double>(shard.global_shape()[0]),
               columns = static_cast<double>(shard.global_shape()[1]);
  const double scale = options_.muon_scale == recipe::MuonScale::kMatchRms
                           ? 0.2 * std::sqrt(std::max(rows, columns))
                           : std::sqrt(std::max(1.0, rows / columns));
  const double lr = settings.lr * shard.spec().lr_factor,
               decay = shard.spec().decay ? options_.weight_decay * settings.decay_factor : 0;
  shard.master.mul_(1 - lr * decay).sub_(orthogonal, lr * scale);
}

void Muon::update(const StepSettings& settings) {
  for (Matrix& matrix : matrices_) {
    if (matrix.cut) move(matrix, own_box(matrix, orthogonals_, matrix.orthogonal), settings);
  }
  in_groups([](const Matrix& matrix) { return !matrix.cut; },
            [&](Matrix& matrix) { return direction(matrix, settings); },
            [&](Matrix& matrix, const Tensor& result) { move(matrix, result, settings); });
  orthogonals_.release();
  refresh_members(settings);
}

std::vector<StateTensor> Muon::state() {
  std::vector<StateTensor> result;
  append_masters(result);
  for (const Matrix& matrix : matrices_) {
    matrix.momentum.append(result);
  }
  return result;
}

}  // namespace longhaul::optim
