#include "optim/optimizers/adafactor.h"

#include <cmath>
#include <functional>
#include <limits>

#include "kernels/adamw/loops.h"
#include "recipe/optimizers/optimizers.h"

namespace longhaul::optim {
namespace {

constexpr double kLeastScale = 1e-3, kDecayRate = -0.8, kBigVisionBeta2 = 0.999;

// What torch.optim.Adafactor has for ε1 where nobody gives it.
double machine_epsilon(const Tensor& of) {
  return of.scalar_type() == at::kDouble ? std::numeric_limits<double>::epsilon()
                                         : std::numeric_limits<float>::epsilon();
}

}  // namespace

Adafactor::Adafactor(const recipe::OptimOptions& options, Members given, MatrixImplementation implementation)
    : Optimizer(std::move(given)), options_(options), momentum_(recipe::momentum_of(options)) {
  std::vector<MatrixTiles::Matrix> tiled;
  for (const Shard& shard : shards()) {
    Matrix matrix{.shard = shard};
    if (shard.matrix())
      matrix.moment = Factors(shard, squares_);
    else
      matrix.second = at::zeros_like(shard.master, at::MemoryFormat::Contiguous);
    if (momentum_ > 0) matrix.momentum = ShardState(shard, "momentum", options, members().seed);
    matrix.weights = squares_.reserve(shard.cut(), 1);
    matrix.updates = sizes_.reserve(shard.cut(), 1);
    tiled.push_back({shard, matrix.momentum});
    matrices_.push_back(std::move(matrix));
  }
  walks_ = MatrixWalks(tiled, implementation);
  using Walk = MatrixWalks::Phase;
  const std::vector<Walk> all = {
      Walk::of(*this, "squares of gradients and weights", &squares_, &Adafactor::fused_squares,
               &Adafactor::sum_squares),
      Walk::of(*this, "sizes of updates", &sizes_, &Adafactor::fused_sizes, &Adafactor::size_updates),
      Walk::of(*this, "update", nullptr, &Adafactor::fused_update, &Adafactor::update)};
  for (Phase& each : walks_.phases(all, std::bind_front(&Adafactor::refresh_members, this)))
    add_phase(std::move(each));
}

double Adafactor::beta2() const {
  const double decay = 1 - std::pow(static_cast<double>(next_step()), kDecayRate);
  return options_.adafactor_form == recipe::AdafactorForm::kBigVision ? std::min(decay, kBigVisionBeta2)
                                                                      : decay;
}

Tensor Adafactor::normalised(const Matrix& matrix, const StepSettings& settings) const {
  const Tensor g = matrix.shard.gradient.to(matrix.shard.master.scalar_type()) * settings.gradient_scale;
  if (!torch()) return matrix.shard.matrix() ? matrix.moment.divide(g) : g * matrix.second.rsqrt();
  const double eps = machine_epsilon(matrix.shard.master);
  if (!matrix.shard.matrix()) return g * matrix.second.clamp_min(eps * eps).rsqrt();
  const Factors& moment = matrix.moment;
  const Tensor estimate =
      moment.rows.unsqueeze(1) * moment.columns.unsqueeze(0) / moment.mean_of_rows.clamp_min(eps);
  return g * estimate.clamp_min(eps * eps).rsqrt();
}

void Adafactor::sum_squares(const StepSettings& settings) {
  for (Matrix& matrix : matrices_) {
    const Shard& shard = matrix.shard;
    const Tensor square = (shard.gradient.to(shard.master.scalar_type()) * settings.gradient_scale)
                              .square_()
                              .add_(torch() ? 0 : options_.square_eps);
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

double Adafactor::step_size(const Matrix& matrix, double lr) const {
  if (options_.adafactor_form == recipe::AdafactorForm::kBigVision) return lr;
  const double elements = static_cast<double>(matrix.shard.spec().elements());
  const double rate =
      torch() || options_.relative_step ? std::min(lr, 1 / std::sqrt(static_cast<double>(next_step()))) : lr;
  if (!torch() && !options_.scale_by_weights) return rate;
  return rate * std::max(kLeastScale, std::sqrt(squares_.number(matrix.weights) / elements));
}

double Adafactor::shrink(Matrix& matrix) const {
  const double squares = sizes_.number(matrix.updates),
               elements = static_cast<double>(matrix.shard.spec().elements());
  return matrix.shrunk = 1 / std::max(1.0, std::sqrt(squares / elements) / options_.update_clip);
}

// fairseq's momentum is of steps, in big_vision it is of updates.
void Adafactor::update(const StepSettings& settings) {
  for (Matrix& matrix : matrices_) {
    const Shard& shard = matrix.shard;
    const double lr = settings.lr * shard.spec().lr_factor,
                 decay = shard.spec().decay ? options_.weight_decay * settings.decay_factor : 0;
    const double alpha = step_size(matrix, lr);
    Tensor step = normalised(matrix, settings).mul_(shrink(matrix));
    if (of_steps()) step.mul_(alpha);
    if (momentum_ > 0) {
      step = matrix.momentum.take().mul_(momentum_).add_(step, 1 - momentum_);
      matrix.momentum.put(step, next_step());
    }
    if (decay != 0) shard.master.mul_(1 - (of_steps() ? alpha : lr) * decay);
    shard.master.sub_(step, of_steps() ? 1 : alpha);
  }
}

double Adafactor::floor() const {
  if (!torch() || matrices_.empty()) return 0;
  const double eps = machine_epsilon(matrices_[0].shard.master);
  return eps * eps;
}

void Adafactor::fused_squares(const MatrixTiles& tiles, const StepSettings& settings) {
  kernels::TileSums sums(tiles.plan());
  std::vector<double> weights(tiles.tiles().size());
  tiles.run(MatrixTiles::Momentum::kUnused, next_step(),
            [&]<class Real>(kernels::Tile<Real> tile, const MatrixTiles::Place& place) {
              tile.row_numbers = sums.rows(place), tile.column_numbers = sums.columns(place);
              kernels::factored_loops<Real>().square_sums(
                  tile, {settings.gradient_scale, torch() ? 0 : options_.square_eps});
              if (options_.adafactor_form == recipe::AdafactorForm::kBigVision ||
                  (!torch() && !options_.scale_by_weights))
                return;
              const kernels::ElementLoops& loops = kernels::element_loops();
              if constexpr (std::is_same_v<Real, double>)
                weights[place.tile] = loops.squares_fp64(tile.master, tile.rows * tile.columns);
              else
                weights[place.tile] = loops.squares_fp32(tile.master, tile.rows * tile.columns);
            });
  sums.settle(kernels::TileSums::How::kSum);
  for (const MatrixTiles::Place& tile : tiles.tiles())
    *squares_.numbers(matrices_[tiles.named(tile.matrix)].weights) += weights[tile.tile];
  tiles.each_matrix([&](size_t i) {
    Matrix& matrix = matrices_[tiles.named(i)];
    if (matrix.shard.matrix())
      matrix.moment.add_sums(matrix.shard, squares_, sums.rows_of(i), sums.columns_of(i), beta2());
    else
      follow_squares(matrix.second, sums.columns_of(i), beta2());
  });
}

void Adafactor::fused_sizes(const MatrixTiles& tiles, const StepSettings& settings) {
  const auto form = torch() ? Divisors::Form::kNumbers : Divisors::Form::kInverseRoots;
  tiles.each_matrix([&](size_t i) {
    Matrix& matrix = matrices_[tiles.named(i)];
    if (matrix.shard.matrix()) matrix.moment.average(matrix.shard, squares_, beta2());
    matrix.divisors = matrix.shard.matrix()
                          ? Divisors(matrix.moment, form, torch() ? machine_epsilon(matrix.shard.master) : 0)
                          : Divisors(matrix.second, form);
  });
  std::vector<double> squares(tiles.tiles().size());
  tiles.run(MatrixTiles::Momentum::kUnused, next_step(),
            [&]<class Real>(kernels::Tile<Real> tile, const MatrixTiles::Place& place) {
              matrices_[tiles.named(place.matrix)].divisors.set(tile, place.row, place.column);
              squares[place.tile] =
                  kernels::factored_loops<Real>().direction_squares(tile, {settings.gradient_scale, floor()});
            });
  for (const MatrixTiles::Place& tile : tiles.tiles())
    *sizes_.numbers(matrices_[tiles.named(tile.matrix)].updates) += squares[tile.tile];
}

void Adafactor::fused_update(const MatrixTiles& tiles, const StepSettings& settings) {
  std::vector<kernels::AdafactorScalars> of_matrices;
  for (size_t i = 0; i < tiles.size(); ++i) {
    Matrix& matrix = matrices_[tiles.named(i)];
    const layout::ParameterSpec& spec = matrix.shard.spec();
    const double lr = settings.lr * spec.lr_factor,
                 decay = spec.decay ? options_.weight_decay * settings.decay_factor : 0,
                 alpha = step_size(matrix, lr);
    of_matrices.push_back({.direction = {settings.gradient_scale, floor()},
                           .inside = shrink(matrix) * (of_steps() ? alpha : 1),
                           .outside = of_steps() ? 1 : alpha,
                           .beta = momentum_,
                           .kept_weight = 1 - (of_steps() ? alpha : lr) * decay,
                           .zero_gradient = settings.zero_gradients});
  }
  tiles.run(MatrixTiles::Momentum::kWritten, next_step(),
            [&]<class Real>(kernels::Tile<Real> tile, const MatrixTiles::Place& place) {
              matrices_[tiles.named(place.matrix)].divisors.set(tile, place.row, place.column);
              kernels::factored_loops<Real>().adafactor_update(tile, of_matrices[place.matrix]);
            });
  for (size_t i = 0; i < tiles.size(); ++i) matrices_[tiles.named(i)].divisors = {};
}

std::vector<StateTensor> Adafactor::state() {
  std::vector<StateTensor> result;
  append_masters(result);
  for (const Matrix& matrix : matrices_) {
    const Shard& shard = matrix.shard;
    matrix.momentum.append(result);
    if (!shard.matrix()) {
      result.push_back(state_of_part(*shard.parameter, shard.part, "second_moment", matrix.second));
      continue;
    }
    result.push_back(state_along(shard, 0, "row_mean", matrix.moment.rows));
    result.push_back(state_along(shard, 1, "column_mean", matrix.moment.columns));
  }
  return result;
}

std::vector<OfTensor> Adafactor::measured() const {
  std::vector<OfTensor> all;
  for (const Matrix& matrix : matrices_) {
    if (matrix.shard.first_of_all()) all.push_back({kUpdateClipFactor, matrix.shrunk});
  }
  return all;
}

}  // namespace longhaul::optim
