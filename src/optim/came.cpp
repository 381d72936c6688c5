#include "optim/came.h"

#include "base/error.h"

namespace longhaul::optim {
namespace {

Tensor divided_by_root(const Tensor& x, const Tensor& rows, const Tensor& mean_of_rows, const Tensor& columns) {
  return x * (rows / mean_of_rows).rsqrt().unsqueeze(1) * columns.rsqrt().unsqueeze(0);
}

}  // namespace

Came::Came(const recipe::OptimOptions& options, model::ParameterSet& parameters, Precision precision)
    : Optimizer(parameters, precision), options_(options) {
  for (const Shard& shard : shards()) {
    Matrix matrix{.shard = shard, .momentum = at::zeros_like(shard.master, at::MemoryFormat::Contiguous)};
    if (shard.matrix()) {
      matrix.moment = factors_of(shard, squares_);
      matrix.residual = factors_of(shard, residuals_);
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

Came::Factors Came::factors_of(const Shard& shard, Partials& partials) const {
  const int64_t rows = shard.master.size(0), columns = shard.master.size(1);
  return {.rows = at::zeros({rows}, shard.master.options()),
          .columns = at::zeros({columns}, shard.master.options()),
          .row_sums = partials.reserve(shard.cut(1), rows),
          .column_sums = partials.reserve(shard.cut(0), columns),
          .sum_of_rows = partials.reserve(shard.cut(), 1)};
}

// Σ rows after the step is β Σ rows + (1 − β) Σ x / columns: linear, so it needs no reduction of its own behind that of the row sums.
void Came::add_sums(const Shard& shard, const Factors& factors, Partials& partials, const Tensor& x, double beta) const {
  const Tensor row_sums = x.sum(1, false, at::kDouble);
  partials[factors.row_sums].add_(row_sums);
  partials[factors.column_sums].add_(x.sum(0, false, at::kDouble));
  Tensor sum = row_sums.sum().mul((1 - beta) / static_cast<double>(shard.global_shape()[1]));
  if (shard.first_along(1)) sum.add_(factors.rows.sum(at::kDouble), beta);
  partials[factors.sum_of_rows].add_(sum);
}

void Came::average(const Shard& shard, Factors& factors, const Partials& partials, double beta) const {
  const double rows = static_cast<double>(shard.global_shape()[0]), columns = static_cast<double>(shard.global_shape()[1]);
  const auto follow = [&](const Tensor& mean, const Tensor& sums, double count) {
    mean.copy_(mean.to(at::kDouble).mul(beta).add(sums, (1 - beta) / count));
  };
  follow(factors.rows, partials[factors.row_sums], columns);
  follow(factors.columns, partials[factors.column_sums], rows);
  factors.mean_of_rows = partials[factors.sum_of_rows].div(rows).to(factors.rows.scalar_type());
}

Tensor Came::normalised(const Matrix& matrix, double gradient_scale) const {
  const Tensor g = matrix.shard.gradient.to(matrix.momentum.scalar_type()) * gradient_scale;
  if (!matrix.shard.matrix()) return g * matrix.second.rsqrt();
  const Factors& moment = matrix.moment;
  return divided_by_root(g, moment.rows, moment.mean_of_rows, moment.columns);
}

void Came::sum_squares(const StepSettings& settings) {
  for (Matrix& matrix : matrices_) {
    const Tensor square =
        (matrix.shard.gradient.to(matrix.momentum.scalar_type()) * settings.gradient_scale).square_().add_(options_.square_eps);
    if (matrix.shard.matrix())
      add_sums(matrix.shard, matrix.moment, squares_, square, options_.beta2);
    else
      matrix.second.mul_(options_.beta2).add_(square, 1 - options_.beta2);
  }
}

void Came::size_updates(const StepSettings& settings) {
  for (Matrix& matrix : matrices_) {
    if (matrix.shard.matrix()) average(matrix.shard, matrix.moment, squares_, options_.beta2);
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
    add_sums(matrix.shard, matrix.residual, residuals_, (update - matrix.momentum).square_().add_(options_.residual_eps), options_.beta3);
  }
}

void Came::update(const StepSettings& settings) {
  for (Matrix& matrix : matrices_) {
    const Shard& shard = matrix.shard;
    const double lr = settings.lr * shard.spec().lr_factor, decay = shard.spec().decay ? options_.weight_decay : 0;
    Tensor step = matrix.momentum;
    if (shard.matrix()) {
      average(shard, matrix.residual, residuals_, options_.beta3);
      step = divided_by_root(step, matrix.residual.rows, matrix.residual.mean_of_rows, matrix.residual.columns);
    }
    shard.master.mul_(1 - lr * decay).sub_(step, lr);
  }
  for (size_t p = 0; p < parameters().size(); ++p) {
    if (!parameters()[p]->trainable()) continue;
    refresh_value(p);
    if (settings.zero_gradients) parameters()[p]->own_grad.zero_();
  }
}

std::vector<StateTensor> Came::state() {
  std::vector<StateTensor> result;
  for (size_t p = 0; p < parameters().size(); ++p) append_state(result, p, "master", master(p));
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
