#include "parallel/ranks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace longhaul::parallel {

using comm::Reduction;
using layout::Axis;

Ranks::Ranks() : ops_(std::make_unique<model::LocalOps>()) {}

Ranks::Ranks(comm::Communicator& world, const layout::Mesh& mesh, const recipe::ContextOptions& context)
    : place_{mesh, world.rank()},
      context_(context),
      groups_(std::make_unique<MeshGroups>(world, mesh)),
      ops_(std::make_unique<MeshOps>(*groups_, context)) {
  LONGHAUL_ASSERT(mesh.size(Axis::kEtp) == 1, "tensors of an expert cut over {} ranks", mesh.size(Axis::kEtp));
}

Ranks::~Ranks() = default;

layout::RowShare Ranks::share() const {
  return {.context_ranks = place_.mesh.size(Axis::kCp),
          .context_rank = place_.coordinate(Axis::kCp),
          .tensor_ranks = place_.mesh.size(Axis::kTp),
          .tensor_rank = place_.coordinate(Axis::kTp),
          .split = context_.split};
}

void Ranks::begin_step(model::ParameterSet& parameters) {
  sums_.clear();
  started_ = 0;
  if (groups_ == nullptr) return parameters.begin_step({});
  for (auto arena = parameters.arenas().rbegin(); arena != parameters.arenas().rend(); ++arena) {
    if ((*arena)->gradients.defined() && (*arena)->gradients.numel() > 0) sums_.push_back({.arena = arena->get()});
  }
  parameters.begin_step([this](const model::Arena& arena) {
    const auto sum = std::ranges::find(sums_, &arena, &Sum::arena);
    if (sum == sums_.end()) return;  // it holds nothing here
    sum->ready = true;
    start_sums();
  });
}

void Ranks::start_sums() {
  for (; started_ < sums_.size() && sums_[started_].ready; ++started_) {
    Sum& sum = sums_[started_];
    sum.work = groups_->over(sum.arena->parameters[0]->gradient_partial_over)
                   .all_reduce(sum.arena->gradients, Reduction::kSum, {.name = "gradients of " + sum.arena->name});
  }
}

void Ranks::sum_gradients(model::ParameterSet& parameters) {
  parameters.end_step();
  if (groups_ == nullptr) return;
  const at::NoGradGuard no_gradient;
  for (Sum& sum : sums_) sum.ready = true;
  start_sums();
  for (Sum& sum : sums_) sum.work.wait();
  if (place_.mesh.size(Axis::kPp) == 1) return;
  for (const Sum& sum : sums_) sum_over_stages(*sum.arena);
}

// A tensor that several stages use gets a gradient on each.
void Ranks::sum_over_stages(const model::Arena& arena) const {
  for (const model::Parameter* parameter : arena.parameters) {
    const std::vector<int64_t>& stages = parameter->parts[0].spec.stages;
    if (!parameter->trainable() || stages.size() < 2) continue;
    const int64_t count = place_.mesh.size(Axis::kPp);
    const bool all = static_cast<int64_t>(stages.size()) == count;
    LONGHAUL_ASSERT(all || stages == std::vector<int64_t>({0, count - 1}), "stages {} use {}", fmt::join(stages, ", "), parameter->name);
    groups_->named(all ? "pp" : "embedding").all_reduce(parameter->grad, Reduction::kSum, {.name = parameter->name}).wait();
  }
}

void Ranks::sum(const Tensor& numbers) const {
  if (groups_ != nullptr) groups_->world().all_reduce(numbers, Reduction::kSum, {.name = "sums of the step"}).wait();
}

void Ranks::sum_over(layout::AxisSet axes, const Tensor& numbers) const {
  if (groups_ != nullptr) groups_->over(axes).all_reduce(numbers, Reduction::kSum, {.name = "sums of the optimizer"}).wait();
}

double Ranks::sum(double number) const {
  if (groups_ == nullptr) return number;
  const Tensor one = at::full({1}, number, at::kDouble);
  sum(one);
  return one.item<double>();
}

int64_t Ranks::most(int64_t number) const {
  if (groups_ == nullptr) return number;
  const Tensor one = at::full({1}, number, at::kLong);
  groups_->world().all_reduce(one, Reduction::kMax, {.name = "what the ranks agree on"}).wait();
  return one.item<int64_t>();
}

std::unique_ptr<comm::Communicator> Ranks::everyone(const std::string& purpose) const {
  if (groups_ == nullptr) return nullptr;
  layout::GroupKind all{.name = purpose, .groups = {std::vector<int64_t>(static_cast<size_t>(place_.mesh.world()))}};
  std::iota(all.groups[0].begin(), all.groups[0].end(), int64_t{0});
  return std::move(groups_->world().split({all}, {.name = purpose})[0]);
}

double Ranks::sum_over_replicas(double number) const {
  if (groups_ == nullptr) return number;
  const Tensor one = at::full({1}, number, at::kDouble);
  groups_->over({Axis::kDp}).all_reduce(one, Reduction::kSum, {.name = "weight of the step"}).wait();
  return one.item<double>();
}

}  // namespace longhaul::parallel
