#include "optim/adafactor.h"

#include <cmath>
#include <limits>

#include "base/error.h"
#include "recipe/optimizers.h"

namespace longhaul::optim {
namespace {

constexpr double kLeastScale = 1e-3, kDecayRate = -0.8, kBigVisionBeta2 = 0.999;

// What torch.optim.Adafactor has for ε1 where nobody gives it.
double machine_epsilon(const Tensor& of) {
  return of.scalar_type() == at::kDouble ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
}

}  // namespace

Adafactor::Adafactor(const recipe::OptimOptions& options, Members given)
    : Optimizer(std::move(given)), options_(options), momentum_(recipe::momentum_of(options)) {
  if (torch() && momentum_ > 0) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "torch's form of adafactor has no momentum",
                 .expected = "optim.momentum=0",
                 .found = fmt::format("{}", momentum_),
                 .where = "optim.adafactor_form",
                 .hint = "optim.adafactor_form=fairseq"});
  }
  for (const Shard& shard : shards()) {
    Matrix matrix{.shard = shard};
    if (shard.matrix())
      matrix.moment = Factors(shard, squares_);
    else
      matrix.second = at::zeros_like(shard.master, at::MemoryFormat::Contiguous);
    if (momentum_ > 0) matrix.momentum = at::zeros_like(shard.master, at::MemoryFormat::Contiguous);
    matrix.weights = squares_.reserve(shard.cut(), 1);
    matrix.updates = sizes_.reserve(shard.cut(), 1);
    matrices_.push_back(std::move(matrix));
  }
  add_phase({"squares of gradients and weights", &squares_, [this](const StepSettings& settings) { sum_squares(settings); }});
  add_phase({"sizes of updates", &sizes_, [this](const StepSettings& settings) { size_updates(settings); }});
  add_phase({"update", nullptr, [this](const StepSettings& settings) { update(settings); }});
}

double Adafactor::beta2() const {
  const double decay = 1 - std::pow(static_cast<double>(next_step()), kDecayRate);
  return options_.adafactor_form == recipe::AdafactorForm::kBigVision ? std::min(decay, kBigVisionBeta2) : decay;
}

Tensor Adafactor::normalised(const Matrix& matrix, const StepSettings& settings) const {
  const Tensor g = matrix.shard.gradient.to(matrix.shard.master.scalar_type()) * settings.gradient_scale;
  if (!torch()) return matrix.shard.matrix() ? matrix.moment.divide(g) : g * matrix.second.rsqrt();
  const double eps = machine_epsilon(matrix.shard.master);
  if (!matrix.shard.matrix()) return g * matrix.second.clamp_min(eps * eps).rsqrt();
  const Factors& moment = matrix.moment;
  const Tensor estimate = moment.rows.unsqueeze(1) * moment.columns.unsqueeze(0) / moment.mean_of_rows.clamp_min(eps);
  return g * estimate.clamp_min(eps * eps).rsqrt();
}

void Adafactor::sum_squares(const StepSettings& settings) {
  for (Matrix& matrix : matrices_) {
    const Shard& shard = matrix.shard;
    const Tensor square =
        (shard.gradient.to(shard.master.scalar_type()) * settings.gradient_scale).square_().add_(torch() ? 0 : options_.square_eps);
    if (shard.matrix())
      matrix.moment.add_sums(shard, squares_, square, beta2());
    else
      matrix.second.mul_(beta2()).add_(square, 1 - beta2());
    squares_[matrix.weights].add_(shard.master.square().sum(at::kDouble));
  }
}

void Adafactor::size_updates(const StepSettings& settings) {
  for (Matrix& matrix : matrices_) {
    if (matrix.shard.matrix()) matrix.moment.average(matrix.shard, squares_, beta2());
    sizes_[matrix.updates].add_(normalised(matrix, settings).square().sum(at::kDouble));
  }
}

Tensor Adafactor::step_size(const Matrix& matrix, double lr) const {
  const Tensor& squares = squares_[matrix.weights];
  if (options_.adafactor_form == recipe::AdafactorForm::kBigVision) return at::full_like(squares, lr);
  const double elements = static_cast<double>(matrix.shard.spec().elements());
  const double rate = torch() || options_.relative_step ? std::min(lr, 1 / std::sqrt(static_cast<double>(next_step()))) : lr;
  if (!torch() && !options_.scale_by_weights) return at::full_like(squares, rate);
  return squares.div(elements).sqrt_().clamp_min_(kLeastScale).mul_(rate);
}

void Adafactor::update(const StepSettings& settings) {
  for (Matrix& matrix : matrices_) {
    const Shard& shard = matrix.shard;
    const ScalarType type = shard.master.scalar_type();
    const double lr = settings.lr * shard.spec().lr_factor, decay = shard.spec().decay ? options_.weight_decay : 0;
    const Tensor rms = sizes_[matrix.updates].div(static_cast<double>(shard.spec().elements())).sqrt_();
    const Tensor alpha = step_size(matrix, lr);
    Tensor step = normalised(matrix, settings).div_(rms.div(options_.update_clip).clamp_min(1).to(type));
    // fairseq's momentum is of steps, in big_vision it is of updates.
    const bool of_steps = options_.adafactor_form == recipe::AdafactorForm::kFairseq;
    if (of_steps) step.mul_(alpha.to(type));
    if (momentum_ > 0) step = matrix.momentum.mul_(momentum_).add_(step, 1 - momentum_);
    if (decay != 0) shard.master.mul_(of_steps ? (1 - alpha * decay).to(type) : at::full({1}, 1 - lr * decay, shard.master.options()));
    shard.master.sub_(of_steps ? step : step * alpha.to(type));
  }
  refresh_members(settings);
}

std::vector<StateTensor> Adafactor::state() {
  std::vector<StateTensor> result;
  append_masters(result);
  for (const Matrix& matrix : matrices_) {
    const Shard& shard = matrix.shard;
    if (matrix.momentum.defined()) result.push_back(state_of_part(*shard.parameter, shard.part, "momentum", matrix.momentum));
    if (!shard.matrix()) {
      result.push_back(state_of_part(*shard.parameter, shard.part, "second_moment", matrix.second));
      continue;
    }
    result.push_back(state_along(shard, 0, "row_mean", matrix.moment.rows));
    result.push_back(state_along(shard, 1, "column_mean", matrix.moment.columns));
  }
  return result;
}

}  // namespace longhaul::optim
