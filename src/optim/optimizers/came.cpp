#include "optim/optimizers/came.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/error.h"

namespace longhaul::optim {

Came::Came(const recipe::OptimOptions& options, Members members, MatrixImplementation implementation)
    : Optimizer(std::move(members)), options_(options) {
  std::vector<MatrixTiles::Matrix> tiled;
  for (const Shard& shard : shards()) {
    Matrix matrix{.shard = shard, .momentum = ShardState(shard, "momentum", options, this->members().seed)};
    if (shard.matrix()) {
      matrix.moment = Factors(shard, squares_);
      matrix.residual = Factors(shard, residuals_);
    } else {
      matrix.second = at::zeros_like(shard.master, at::MemoryFormat::Contiguous);
    }
    matrix.squares = sizes_.reserve(shard.cut(), 1);
    tiled.push_back({shard, matrix.momentum});
    matrices_.push_back(std::move(matrix));
  }
  walks_ = MatrixWalks(tiled, implementation);
  using Walk = MatrixWalks::Phase;
  const std::vector<Walk> all = {
      Walk::of(*this, "squares of gradients", &squares_, &Came::fused_squares, &Came::sum_squares),
      Walk::of(*this, "sizes of updates", &sizes_, &Came::fused_sizes, &Came::size_updates),
      Walk::of(*this, "residuals", &residuals_, &Came::fused_residuals, &Came::sum_residuals),
      Walk::of(*this, "update", nullptr, &Came::fused_update, &Came::update)};
  for (Phase& each : walks_.phases(all, std::bind_front(&Came::refresh_members, this)))
    add_phase(std::move(each));
}

double Came::shrink(Matrix& matrix) const {
  const double squares = sizes_.number(matrix.squares),
               elements = static_cast<double>(matrix.shard.spec().elements());
  return matrix.shrunk = 1 / std::max(1.0, std::sqrt(squares / elements) / options_.update_clip);
}

// Of C, by which a step is divided under its root; that of R cancels.
double Came::correction(const Matrix& matrix) const {
  if (!options_.correct_residuals || !matrix.shard.matrix()) return 1;
  return std::sqrt(1 - std::pow(options_.beta3, static_cast<double>(next_step())));
}

void Came::fused_squares(const MatrixTiles& tiles, const StepSettings& settings) {
  kernels::TileSums sums(tiles.plan());
  tiles.run(
      MatrixTiles::Momentum::kUnused, next_step(),
      [&]<class Real>(kernels::Tile<Real> tile, const MatrixTiles::Place& place) {
        tile.row_numbers = sums.rows(place), tile.column_numbers = sums.columns(place);
        kernels::factored_loops<Real>().square_sums(tile, {settings.gradient_scale, options_.square_eps});
      });
  sums.settle(kernels::TileSums::How::kSum);
  tiles.each_matrix([&](size_t i) {
    Matrix& matrix = matrices_[tiles.named(i)];
    if (matrix.shard.matrix())
      matrix.moment.add_sums(matrix.shard, squares_, sums.rows_of(i), sums.columns_of(i), options_.beta2);
    else
      follow_squares(matrix.second, sums.columns_of(i), options_.beta2);
  });
}

void Came::fused_sizes(const MatrixTiles& tiles, const StepSettings& settings) {
  tiles.each_matrix([&](size_t i) {
    Matrix& matrix = matrices_[tiles.named(i)];
    if (matrix.shard.matrix()) matrix.moment.average(matrix.shard, squares_, options_.beta2);
    matrix.moments = matrix.shard.matrix() ? Divisors(matrix.moment, Divisors::Form::kInverseRoots)
                                           : Divisors(matrix.second, Divisors::Form::kInverseRoots);
  });
  std::vector<double> squares(tiles.tiles().size());
  tiles.run(MatrixTiles::Momentum::kUnused, next_step(),
            [&]<class Real>(kernels::Tile<Real> tile, const MatrixTiles::Place& place) {
              matrices_[tiles.named(place.matrix)].moments.set(tile, place.row, place.column);
              squares[place.tile] =
                  kernels::factored_loops<Real>().direction_squares(tile, {settings.gradient_scale});
            });
  for (const MatrixTiles::Place& tile : tiles.tiles())
    *sizes_.numbers(matrices_[tiles.named(tile.matrix)].squares) += squares[tile.tile];
}

void Came::fused_residuals(const MatrixTiles& tiles, const StepSettings& settings) {
  std::vector<double> shrinks;
  for (size_t i = 0; i < tiles.size(); ++i) shrinks.push_back(shrink(matrices_[tiles.named(i)]));
  kernels::TileSums sums(tiles.plan());
  tiles.run(MatrixTiles::Momentum::kWritten, next_step(),
            [&]<class Real>(kernels::Tile<Real> tile, const MatrixTiles::Place& place) {
              matrices_[tiles.named(place.matrix)].moments.set(tile, place.row, place.column);
              tile.row_numbers = sums.rows(place), tile.column_numbers = sums.columns(place);
              kernels::factored_loops<Real>().came_momentum(tile, {.direction = {settings.gradient_scale},
                                                                   .shrink = shrinks[place.matrix],
                                                                   .beta = options_.beta1,
                                                                   .eps = options_.residual_eps,
                                                                   .zero_gradient = settings.zero_gradients});
            });
  sums.settle(kernels::TileSums::How::kSum);
  tiles.each_matrix([&](size_t i) {
    Matrix& matrix = matrices_[tiles.named(i)];
    matrix.moments = {};
    if (matrix.shard.matrix())
      matrix.residual.add_sums(matrix.shard, residuals_, sums.rows_of(i), sums.columns_of(i), options_.beta3);
  });
}

void Came::fused_update(const MatrixTiles& tiles, const StepSettings& settings) {
  tiles.each_matrix([&](size_t i) {
    Matrix& matrix = matrices_[tiles.named(i)];
    if (matrix.shard.matrix()) matrix.residual.average(matrix.shard, residuals_, options_.beta3);
    matrix.residuals = matrix.shard.matrix() ? Divisors(matrix.residual, Divisors::Form::kInverseRoots)
                                             : Divisors::ones(matrix.second);
  });
  tiles.run(MatrixTiles::Momentum::kRead, next_step(),
            [&]<class Real>(kernels::Tile<Real> tile, const MatrixTiles::Place& place) {
              const Matrix& matrix = matrices_[tiles.named(place.matrix)];
              matrix.residuals.set(tile, place.row, place.column);
              const double lr = settings.lr * matrix.shard.spec().lr_factor;
              kernels::factored_loops<Real>().came_update(
                  tile, {.kept_weight = 1 - lr * decay(matrix, settings), .lr = lr * correction(matrix)});
            });
  for (size_t i = 0; i < tiles.size(); ++i) matrices_[tiles.named(i)].residuals = {};
}

Tensor Came::normalised(const Matrix& matrix, double gradient_scale) const {
  const Tensor g = matrix.shard.gradient.to(matrix.shard.master.scalar_type()) * gradient_scale;
  if (!matrix.shard.matrix()) return g * matrix.second.rsqrt();
  const Factors& moment = matrix.moment;
  return moment.divide(g);
}

void Came::sum_squares(const StepSettings& settings) {
  for (Matrix& matrix : matrices_) {
    const Tensor square =
        (matrix.shard.gradient.to(matrix.shard.master.scalar_type()) * settings.gradient_scale)
            .square_()
            .add_(options_.square_eps);
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
    const Tensor update = normalised(matrix, settings.gradient_scale).mul_(shrink(matrix));
    const Tensor momentum = matrix.momentum.take().mul_(options_.beta1).add_(update, 1 - options_.beta1);
    matrix.momentum.put(momentum, next_step());
    if (!matrix.shard.matrix()) continue;
    matrix.residual.add_sums(matrix.shard, residuals_,
                             (update - momentum).square_().add_(options_.residual_eps), options_.beta3);
  }
}

void Came::update(const StepSettings& settings) {
  for (Matrix& matrix : matrices_) {
    const Shard& shard = matrix.shard;
    const double lr = settings.lr * shard.spec().lr_factor;
    Tensor step = matrix.momentum.take();
    if (shard.matrix()) {
      matrix.residual.average(shard, residuals_, options_.beta3);
      step = matrix.residual.divide(step);
    }
    shard.master.mul_(1 - lr * decay(matrix, settings)).sub_(step, lr * correction(matrix));
  }
}

std::vector<StateTensor> Came::state() {
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
    result.push_back(state_along(shard, 0, "row_residual", matrix.residual.rows));
    result.push_back(state_along(shard, 1, "column_residual", matrix.residual.columns));
  }
  return result;
}

std::vector<OfTensor> Came::measured() const {
  std::vector<OfTensor> all;
  for (const Matrix& matrix : matrices_) {
    if (!matrix.shard.first_of_all()) continue;
    all.push_back({kUpdateClipFactor, matrix.shrunk});
    if (matrix.shard.matrix() && matrix.residual.mean_of_rows.defined())
      all.push_back({kMeanResidual, matrix.residual.mean_of_rows.item<double>()});
  }
  return all;
}

}  // namespace longhaul::optim
