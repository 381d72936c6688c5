#include "optim/came.h"

#include "base/error.h"

namespace longhaul::optim {
Came::Came(const recipe::OptimOptions& options, Members members) : Optimizer(std::move(members)), options_(options) {
  for (const Shard& shard : shards()) {
    Matrix matrix{.shard = shard, .momentum = at::zeros_like(shard.master, at::MemoryFormat::Contiguous)};
    if (shard.matrix()) {
      matrix.moment = Factors(shard, squares_);
      matrix.residual = Factors(shard, residuals_);
    } else {
      matrix.second = at::zeros_like(matrix.momentum);
    }
    matrix.squares = sizes_.reserve(shard.cut(), 1);
    matrices_.push_back(std::move(matrix));
  }
  add_phase({"squares of gradients", &squares_, [this](const StepSettings& settings) { sum_squares(settings); }});
  add_phase({"sizes of updates", &sizes_, [this](const StepSettings& settings) { size_updates(settings); }});
  add_phase({"residuals", &residuals_, [this](const StepSettings& settings) { sum_residuals(settings); }});
  add_phase({"update", nullptr, [this](const StepSettings& settings) { update(settings); }});
}

Tensor Came::normalised(const Matrix& matrix, double gradient_scale) const {
  const Tensor g = matrix.shard.gradient.to(matrix.momentum.scalar_type()) * gradient_scale;
  if (!matrix.shard.matrix()) return g * matrix.second.rsqrt();
  const Factors& moment = matrix.moment;
  return moment.divide(g);
}

void Came::sum_squares(const StepSettings& settings) {
  for (Matrix& matrix : matrices_) {
    const Tensor square =
        (matrix.shard.gradient.to(matrix.momentum.scalar_type()) * settings.gradient_scale).square_().add_(options_.square_eps);
    if (matrix.shard.matrix())
      matrix.moment.add_sums(matrix.shard, squares_, square, options_.beta2);
    else
      matrix.second.mul_(options_.beta2).add_(square, 1 - options_.beta2);
  }
}

void Came::size_updates(const StepSettings& settings) {
  for (Matrix& matrix : matrices_) {
    if (matrix.shard.matrix()) matrix.moment.average(matrix.shard, squares_, options_.beta2);
    sizes_[matrix.squares].add_(normalised(matrix, settings.gradient_scale).square().sum(at::kDouble));
  }
}

void Came::sum_residuals(const StepSettings& settings) {
  for (Matrix& matrix : matrices_) {
    const double elements = static_cast<double>(matrix.shard.spec().elements());
    const Tensor rms = sizes_[matrix.squares].div(elements).sqrt_();
    const Tensor shrink = rms.div(options_.update_clip).clamp_min(1).to(matrix.momentum.scalar_type());
    const Tensor update = normalised(matrix, settings.gradient_scale).div_(shrink);
    matrix.momentum.mul_(options_.beta1).add_(update, 1 - options_.beta1);
    if (!matrix.shard.matrix()) continue;
    matrix.residual.add_sums(matrix.shard, residuals_, (update - matrix.momentum).square_().add_(options_.residual_eps), options_.beta3);
  }
}

void Came::update(const StepSettings& settings) {
  for (Matrix& matrix : matrices_) {
    const Shard& shard = matrix.shard;
    const double lr = settings.lr * shard.spec().lr_factor, decay = shard.spec().decay ? options_.weight_decay : 0;
    Tensor step = matrix.momentum;
    if (shard.matrix()) {
      matrix.residual.average(shard, residuals_, options_.beta3);
      step = matrix.residual.divide(step);
    }
    shard.master.mul_(1 - lr * decay).sub_(step, lr);
  }
  refresh_members(settings);
}

std::vector<StateTensor> Came::state() {
  std::vector<StateTensor> result;
  append_masters(result);
  for (const Matrix& matrix : matrices_) {
    const Shard& shard = matrix.shard;
    result.push_back(state_of_part(*shard.parameter, shard.part, "momentum", matrix.momentum));
    if (!shard.matrix()) {
      result.push_back(state_of_part(*shard.parameter, shard.part, "second_moment", matrix.second));
      continue;
    }
    result.push_back(state_along(shard, 0, "row_mean", matrix.moment.rows));
    result.push_back(state_along(shard, 1, "column_mean", matrix.moment.columns));
    result.push_back(state_along(shard, 0, "row_residual", matrix.residual.rows));
    result.push_back(state_along(shard, 1, "column_residual", matrix.residual.columns));
  }
  return result;
}

}  // namespace longhaul::optim
