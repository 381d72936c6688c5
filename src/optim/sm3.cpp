#include "optim/sm3.h"

#include "recipe/optimizers.h"

namespace longhaul::optim {

Sm3::Sm3(const recipe::OptimOptions& options, Members given)
    : Optimizer(std::move(given)), options_(options), momentum_(recipe::momentum_of(options)) {
  for (const Shard& shard : shards()) {
    Matrix matrix{.shard = shard};
    const Tensor& w = shard.master;
    if (shard.matrix()) {
      matrix.rows = at::zeros({w.size(0)}, w.options());
      matrix.columns = at::zeros({w.size(1)}, w.options());
      matrix.largest_of_rows = largest_.reserve(shard.cut(1), w.size(0));
      matrix.largest_of_columns = largest_.reserve(shard.cut(0), w.size(1));
    } else {
      matrix.sums = at::zeros_like(w, at::MemoryFormat::Contiguous);
    }
    if (momentum_ > 0) matrix.momentum = at::zeros_like(w, at::MemoryFormat::Contiguous);
    matrices_.push_back(std::move(matrix));
  }
  add_phase({"update", &largest_, [this](const StepSettings& settings) { update(settings); }});
  add_phase({"bounds", nullptr, [this](const StepSettings&) { keep_bounds(); }});
}

void Sm3::update(const StepSettings& settings) {
  for (Matrix& matrix : matrices_) {
    const Shard& shard = matrix.shard;
    const double lr = settings.lr * shard.spec().lr_factor, decay = shard.spec().decay ? options_.weight_decay : 0;
    const Tensor g = shard.gradient.to(shard.master.scalar_type()) * settings.gradient_scale;
    Tensor sums = matrix.sums;
    if (shard.matrix()) {
      sums = at::minimum(matrix.rows.unsqueeze(1), matrix.columns.unsqueeze(0)).add_(g.square());
      if (sums.numel() > 0) {
        largest_[matrix.largest_of_rows].copy_(sums.amax(1));
        largest_[matrix.largest_of_columns].copy_(sums.amax(0));
      }
    } else {
      sums.add_(g.square());
    }
    Tensor step = g / (sums + options_.square_eps).sqrt_();
    if (momentum_ > 0) step = matrix.momentum.mul_(momentum_).add_(step, 1 - momentum_);
    shard.master.mul_(1 - lr * decay).sub_(step, lr);
  }
  refresh_members(settings);
}

void Sm3::keep_bounds() {
  for (Matrix& matrix : matrices_) {
    if (!matrix.shard.matrix()) continue;
    matrix.rows.copy_(largest_[matrix.largest_of_rows]);
    matrix.columns.copy_(largest_[matrix.largest_of_columns]);
  }
}

std::vector<StateTensor> Sm3::state() {
  std::vector<StateTensor> result;
  append_masters(result);
  for (const Matrix& matrix : matrices_) {
    const Shard& shard = matrix.shard;
    if (matrix.momentum.defined()) result.push_back(state_of_part(*shard.parameter, shard.part, "momentum", matrix.momentum));
    if (shard.matrix()) {
      result.push_back(state_along(shard, 0, "row_bound", matrix.rows));
      result.push_back(state_along(shard, 1, "column_bound", matrix.columns));
    } else {
      result.push_back(state_of_part(*shard.parameter, shard.part, "sum_of_squares", matrix.sums));
    }
  }
  return result;
}

}  // namespace longhaul::optim
