#include "optim/matrix_tiles.h"

#include <algorithm>

namespace longhaul::optim {
namespace {

bool takes(const MatrixTiles::Matrix& matrix) {
  const Tensor &w = matrix.shard.master, &g = matrix.shard.gradient;
  return w.device().is_cpu() && w.is_contiguous() && g.is_contiguous() && g.scalar_type() == w.scalar_type() &&
         (w.scalar_type() == at::kFloat || w.scalar_type() == at::kDouble);
}

// The working copy, where it is not the master itself.
Tensor value_of(const Shard& shard) {
  const model::Parameter& parameter = *shard.parameter;
  return parameter.value.scalar_type() == at::kBFloat16 ? parameter.own_part_of(parameter.own_value, shard.part) : Tensor();
}

}  // namespace

MatrixTiles::MatrixTiles(std::vector<Matrix> matrices, MatrixImplementation implementation) {
  if (implementation == MatrixImplementation::kTensorOperations || !std::ranges::all_of(matrices, takes)) return;
  matrices_ = std::move(matrices);
  usable_ = true;
  std::vector<kernels::TilePlan::Sizes> sizes;
  for (const Matrix& matrix : matrices_) {
    const Shard& shard = matrix.shard;
    values_.push_back(value_of(shard));
    const int64_t columns = shard.matrix() ? shard.master.size(1) : shard.master.numel();
    sizes.push_back({columns == 0 ? 0 : shard.master.numel() / columns, columns});
  }
  plan_ = kernels::TilePlan(std::move(sizes));
}

}  // namespace longhaul::optim
