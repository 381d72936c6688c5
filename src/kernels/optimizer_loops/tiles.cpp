#include "kernels/optimizer_loops/tiles.h"

#include <algorithm>

#include "base/threads/parallel.h"

namespace longhaul::kernels {
namespace {

constexpr int64_t kTileElements = 32768, kMostTiles = 64;  // of a matrix: each has sums of all columns
constexpr int64_t kGrainOfTiles = 16384;
constexpr int64_t kOfOneThread =
    // elements of a matrix: gradient, momentum and master are 6 MB, a core's share of most last-level caches
    1 << 19;

}  // namespace

TilePlan::TilePlan(std::vector<Sizes> matrices) : matrices_(std::move(matrices)) {
  for (size_t i = 0; i < matrices_.size(); ++i) {
    const int64_t rows = rows_of(i), columns = std::max<int64_t>(1, columns_of(i));
    const int64_t step =
        std::max({int64_t{1}, kTileElements / columns, (rows + kMostTiles - 1) / kMostTiles});
    for (int64_t row = 0; row < rows; row += step) {
      tiles_.push_back({.matrix = i, .tile = tiles_.size(), .row = row, .rows = std::min(step, rows - row)});
      tasks_.add(tiles_.back().tile, tiles_.back().rows * columns);
    }
  }
  place_sums();
}

// Matrices without a row on this rank have zeros behind all others' numbers.
void TilePlan::place_sums() {
  first_tile_.assign(size(), tiles_.size());
  for (size_t i = 0; i < size(); ++i) rows_at_.push_back(numbers_), numbers_ += rows_of(i);
  for (const Place& tile : tiles_) {
    if (tile.row == 0) first_tile_[tile.matrix] = tile.tile;
    columns_at_.push_back(numbers_), numbers_ += columns_of(tile.matrix);
  }
  columns_at_.push_back(numbers_);
  int64_t widest = 0;
  for (size_t i = 0; i < size(); ++i) widest = std::max(widest, rows_of(i) == 0 ? columns_of(i) : 0);
  numbers_ += widest;
}

void TilePlan::each_tile(const std::function<void(const Place&)>& body) const {
  tasks_.run(kGrainOfTiles, [&](const size_t* first, const size_t* last) {
    for (const size_t* tile = first; tile != last; ++tile) body(tiles_[*tile]);
  });
}

void TilePlan::each_matrix(const std::function<void(size_t)>& body) const {
  parallel_for(0, static_cast<int64_t>(size()), 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) body(static_cast<size_t>(i));
  });
}

void each_alone(const std::vector<int64_t>& elements, const std::function<void(size_t)>& body) {
  std::vector<size_t> small;
  for (size_t i = 0; i < elements.size(); ++i) {
    if (elements[i] <= kOfOneThread)
      small.push_back(i);
    else
      body(i);
  }
  std::ranges::stable_sort(small, std::ranges::greater{}, [&](size_t i) { return elements[i]; });
  // Inside the region their own loops run serially.
  parallel_items(static_cast<int64_t>(small.size()), threads(), [&](const auto& each) {
    each([&](int64_t item) { body(small[static_cast<size_t>(item)]); });
  });
}

void TileSums::settle(How how) {
  const std::vector<TilePlan::Place>& tiles = plan_.tiles();
  plan_.each_matrix([&](size_t matrix) {
    const int64_t count = plan_.columns_of(matrix);
    const size_t first = plan_.first_tile_[matrix];
    double* const all = at(plan_.columns_at_[first]);
    for (size_t tile = first + 1; tile < tiles.size() && tiles[tile].matrix == matrix; ++tile) {
      const double* const more = at(plan_.columns_at_[tile]);
      if (how == How::kLargest) {
        for (int64_t i = 0; i < count; ++i) all[i] = std::max(all[i], more[i]);
      } else {
        for (int64_t i = 0; i < count; ++i) all[i] += more[i];
      }
    }
  });
}

}  // namespace longhaul::kernels
