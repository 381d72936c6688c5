#include "optim/optimizers/sm3.h"

#include <algorithm>
#include <numeric>

#include "recipe/optimizers/optimizers.h"

namespace longhaul::optim {

Sm3::Sm3(const recipe::OptimOptions& options, Members given, MatrixImplementation implementation)
    : Optimizer(std::move(given)), options_(options), momentum_(recipe::momentum_of(options)) {
  std::vector<MatrixTiles::Matrix> tiled;
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
    if (momentum_ > 0) matrix.momentum = ShardState(shard, "momentum", options, members().seed);
    tiled.push_back({shard, matrix.momentum});
    matrices_.push_back(std::move(matrix));
  }
  const bool fused = MatrixTiles::take(tiled, implementation);
  if (fused) {
    std::vector<size_t> all(tiled.size());
    std::iota(all.begin(), all.end(), size_t{0});
    tiles_ = MatrixTiles(tiled, std::move(all));
  }
  add_phase({"update", &largest_, [this, fused](const StepSettings& settings) {
               fused ? fused_update(settings) : update(settings);
             }});
  add_phase({"bounds", nullptr, [this](const StepSettings&) { keep_bounds(); }});
}

void Sm3::update(const StepSettings& settings) {
  for (Matrix& matrix : matrices_) {
    const Shard& shard = matrix.shard;
    const double lr = settings.lr * shard.spec().lr_factor,
                 decay = shard.spec().decay ? options_.weight_decay * settings.decay_factor : 0;
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
    if (momentum_ > 0) {
      step = matrix.momentum.take().mul_(momentum_).add_(step, 1 - momentum_);
      matrix.momentum.put(step, next_step());
    }
    shard.master.mul_(1 - lr * decay).sub_(step, lr);
  }
  refresh_members(settings);
}

void Sm3::fused_update(const StepSettings& settings) {
  kernels::TileSums largest(tiles_.plan());
  tiles_.run(
      MatrixTiles::Momentum::kWritten, next_step(),
      [&]<class Real>(kernels::Tile<Real> tile, const MatrixTiles::Place& place) {
        const Matrix& matrix = matrices_[place.matrix];
        const bool bounded = matrix.shard.matrix();
        tile.row_numbers = largest.rows(place), tile.column_numbers = largest.columns(place);
        tile.of_rows = bounded ? matrix.rows.const_data_ptr<Real>() + place.row : nullptr;
        tile.of_columns = (bounded ? matrix.columns : matrix.sums).const_data_ptr<Real>() + place.column;
        const double lr = settings.lr * matrix.shard.spec().lr_factor,
                     decay = matrix.shard.spec().decay ? options_.weight_decay * settings.decay_factor : 0;
        kernels::factored_loops<Real>().sm3_update(tile, {.gradient_scale = settings.gradient_scale,
                                                          .eps = options_.square_eps,
                                                          .beta = momentum_,
                                                          .kept_weight = 1 - lr * decay,
                                                          .lr = lr,
                                                          .zero_gradient = settings.zero_gradients});
      });
  largest.settle(kernels::TileSums::How::kLargest);
  for (size_t i = 0; i < matrices_.size(); ++i) {
    const Matrix& matrix = matrices_[i];
    if (!matrix.shard.matrix()) continue;
    const auto keep = [&](const Partials::Place& place, const double* numbers) {
      std::copy(numbers, numbers + place.count, largest_[place].mutable_data_ptr<double>());
    };
    keep(matrix.largest_of_rows, largest.rows_of(i));
    keep(matrix.largest_of_columns, largest.columns_of(i));
  }
  refresh_members(settings, Parts::kFrozen);
}

void Sm3::keep_bounds() {
  for (Matrix& matrix : matrices_) {
    if (!matrix.shard.matrix()) continue;
    matrix.rows.copy_(largest_[matrix.largest_of_rows]);
    matrix.columns.copy_(largest_[matrix.largest_of_columns]);
  }
  largest_.release();
}

std::vector<StateTensor> Sm3::state() {
  std::vector<StateTensor> result;
  append_masters(result);
  for (const Matrix& matrix : matrices_) {
    const Shard& shard = matrix.shard;
    matrix.momentum.append(result);
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
