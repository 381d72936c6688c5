#include "optim/matrix_tiles.h"

#include <algorithm>

#include "base/parallel.h"
#include "kernels/matmul/tasks.h"

namespace longhaul::optim {
namespace {

constexpr int64_t kTileElements = 32768, kMostTiles = 64;  // of a matrix: each has sums of all columns
constexpr int64_t kGrainOfTiles = 16384;

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
  for (size_t i = 0; i < matrices_.size(); ++i) {
    const Shard& shard = matrices_[i].shard;
    values_.push_back(value_of(shard));
    columns_.push_back(shard.matrix() ? shard.master.size(1) : shard.master.numel());
    const int64_t rows = rows_of(i), columns = std::max<int64_t>(1, columns_[i]);
    const int64_t step = std::max({int64_t{1}, kTileElements / columns, (rows + kMostTiles - 1) / kMostTiles});
    for (int64_t row = 0; row < rows; row += step)
      tiles_.push_back({.matrix = i, .tile = tiles_.size(), .row = row, .rows = std::min(step, rows - row)});
  }
}

void MatrixTiles::each_tile(const std::function<void(const Place&)>& body) const {
  kernels::TaskList<const Place*> tasks;
  for (const Place& place : tiles_) tasks.add(&place, place.rows * columns_[place.matrix]);
  tasks.run(kGrainOfTiles, [&](const Place* const* first, const Place* const* last) {
    for (const Place* const* place = first; place != last; ++place) body(**place);
  });
}

void MatrixTiles::each_matrix(const std::function<void(size_t)>& body) const {
  parallel_for(0, static_cast<int64_t>(size()), 4, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) body(static_cast<size_t>(i));
  });
}

TileSums::TileSums(const MatrixTiles& tiles) : tiles_(tiles), first_tile_(tiles.size(), 0) {
  int64_t end = 0;
  for (size_t i = 0; i < tiles.size(); ++i) rows_.push_back(end), end += tiles.rows_of(i);
  for (const MatrixTiles::Place& tile : tiles.tiles()) {
    if (tile.row == 0) first_tile_[tile.matrix] = tile.tile;
    columns_.push_back(end), end += tiles.columns_of(tile.matrix);
  }
  columns_.push_back(end);  // of matrices without a row on this rank
  int64_t widest = 0;
  for (size_t i = 0; i < tiles.size(); ++i) {
    if (tiles.rows_of(i) == 0) first_tile_[i] = columns_.size() - 1, widest = std::max(widest, tiles.columns_of(i));
  }
  numbers_.assign(static_cast<size_t>(end + widest), 0.0);
}

void TileSums::settle(comm::Reduction how) {
  const std::vector<MatrixTiles::Place>& tiles = tiles_.tiles();
  tiles_.each_matrix([&](size_t matrix) {
    const int64_t count = tiles_.columns_of(matrix);
    double* const all = at(columns_[first_tile_[matrix]]);
    for (size_t tile = first_tile_[matrix] + 1; tile < tiles.size() && tiles[tile].matrix == matrix; ++tile) {
      const double* const more = at(columns_[tile]);
      for (int64_t i = 0; i < count; ++i) all[i] = how == comm::Reduction::kMax ? std::max(all[i], more[i]) : all[i] + more[i];
    }
  });
}

}  // namespace longhaul::optim
