#include "optim/optimizers/matrix_tiles.h"

#include <algorithm>

namespace longhaul::optim {
namespace {

bool takes(const MatrixTiles::Matrix& matrix) {
  const Tensor &w = matrix.shard.master, &g = matrix.shard.gradient;
  return w.device().is_cpu() && w.is_contiguous() && g.is_contiguous() &&
         g.scalar_type() == w.scalar_type() &&
         (w.scalar_type() == at::kFloat || w.scalar_type() == at::kDouble);
}

// The working copy, where it is not the master itself.
Tensor value_of(const Shard& shard) {
  const model::Parameter& parameter = *shard.parameter;
  return parameter.value.scalar_type() == at::kBFloat16
             ? parameter.own_part_of(parameter.own_value, shard.part)
             : Tensor();
}

}  // namespace

bool MatrixTiles::take(const std::vector<Matrix>& matrices, MatrixImplementation implementation) {
  return implementation != MatrixImplementation::kTensorOperations && std::ranges::all_of(matrices, takes);
}

MatrixTiles::MatrixTiles(const std::vector<Matrix>& matrices, std::vector<size_t> named)
    : named_(std::move(named)) {
  std::vector<kernels::TilePlan::Sizes> sizes;
  for (const size_t i : named_) {
    matrices_.push_back(matrices[i]);
    const Shard& shard = matrices[i].shard;
    values_.push_back(value_of(shard));
    const int64_t columns = shard.matrix() ? shard.master.size(1) : shard.master.numel();
    sizes.push_back({columns == 0 ? 0 : shard.master.numel() / columns, columns});
  }
  plan_ = kernels::TilePlan(std::move(sizes));
}

MatrixWalks::MatrixWalks(const std::vector<MatrixTiles::Matrix>& matrices,
                         MatrixImplementation implementation)
    : usable_(MatrixTiles::take(matrices, implementation)) {
  if (!usable_) return;
  std::vector<size_t> cut;
  for (size_t i = 0; i < matrices.size(); ++i) {
    if (!matrices[i].shard.cut().empty()) {
      cut.push_back(i);
      continue;
    }
    whole_.emplace_back(matrices, std::vector<size_t>{i});
    elements_.push_back(matrices[i].shard.master.numel());
  }
  cut_ = MatrixTiles(matrices, std::move(cut));
}

void MatrixWalks::each_whole(const std::function<void(const MatrixTiles&)>& body) const {
  kernels::each_alone(elements_, [&](size_t i) { body(whole_[i]); });
}

std::vector<optim::Phase> MatrixWalks::phases(
    std::vector<Phase> given, const std::function<void(const StepSettings&, Parts)>& refresh) const {
  std::vector<optim::Phase> result;
  for (const Phase& phase : given)
    result.push_back({phase.name, phase.partials, [this, phase](const StepSettings& settings) {
                        usable_ ? phase.fused(cut_, settings) : phase.operations(settings);
                      }});
  result.back().run = [this, refresh, last = result.back().run,
                       all = std::move(given)](const StepSettings& settings) {
    last(settings);
    if (usable_) {
      each_whole([&](const MatrixTiles& tiles) {
        for (const Phase& phase : all) phase.fused(tiles, settings);
      });
    }
    refresh(settings, usable_ ? Parts::kFrozen : Parts::kAll);
    for (const Phase& phase : all) {
      if (phase.partials != nullptr) phase.partials->release();
    }
  };
  return result;
}

}  // namespace longhaul::optim
