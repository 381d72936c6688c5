#include "kernels/updates/tiles.h"

#include <algorithm>

#include "base/parallel.h"
#include "kernels/matmul/tasks.h"

namespace longhaul::kernels {
namespace {

constexpr int64_t kTileElements = 32768, kMostTiles = 64;  // of a matrix: each has sums of all columns
constexpr int64_t kGrainOfTiles = 16384;
constexpr int64_t kOfOneThread = 1 << 19;  // elements of a matrix: gradient, momentum and master are 6 MB, a core's share of most last-level caches

}  // namespace

TilePlan::TilePlan(std::vector<Sizes> matrices) : matrices_(std::move(matrices)) {
  for (size_t i = 0; i < matrices_.size(); ++i) {
    const int64_t rows = rows_of(i), columns = std::max<int64_t>(1, columns_of(i));
    const int64_t step = std::max({int64_t{1}, kTileElements / columns, (rows + kMostTiles - 1) / kMostTiles});
    for (int64_t row = 0; row < rows; row += step)
      tiles_.push_back({.matrix = i, .tile = tiles_.size(), .row = row, .rows = std::min(step, rows - row)});
  }
}

void TilePlan::each_tile(const std::function<void(const Place&)>& body) const {
  TaskList<const Place*> tasks;
  for (const Place& place : tiles_) tasks.add(&place, place.rows * columns_of(place.matrix));
  tasks.run(kGrainOfTiles, [&](const Place* const* first, const Place* const* last) {
    for (const Place* const* place = first; place != last; ++place) body(**place);
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
  parallel_items(static_cast<int64_t>(small.size()), threads(),
                 [&](const auto& each) { each([&](int64_t item) { body(small[static_cast<size_t>(item)]); }); });
}

TileSums::TileSums(const TilePlan& plan) : plan_(plan), first_tile_(plan.size(), 0) {
  int64_t end = 0;
  for (size_t i = 0; i < plan.size(); ++i) rows_.push_back(end), end += plan.rows_of(i);
  for (const TilePlan::Place& tile : plan.tiles()) {
    if (tile.row == 0) first_tile_[tile.matrix] = tile.tile;
    columns_.push_back(end), end += plan.columns_of(tile.matrix);
  }
  columns_.push_back(end);  // of matrices without a row on this rank
  int64_t widest = 0;
  for (size_t i = 0; i < plan.size(); ++i) {
    if (plan.rows_of(i) == 0) first_tile_[i] = columns_.size() - 1, widest = std::max(widest, plan.columns_of(i));
  }
  numbers_.assign(static_cast<size_t>(end + widest), 0.0);
}

void TileSums::settle(How how) {
  const std::vector<TilePlan::Place>& tiles = plan_.tiles();
  plan_.each_matrix([&](size_t matrix) {
    const int64_t count = plan_.columns_of(matrix);
    double* const all = at(columns_[first_tile_[matrix]]);
    for (size_t tile = first_tile_[matrix] + 1; tile < tiles.size() && tiles[tile].matrix == matrix; ++tile) {
      const double* const more = at(columns_[tile]);
      if (how == How::kLargest) {
        for (int64_t i = 0; i < count; ++i) all[i] = std::max(all[i], more[i]);
      } else {
        for (int64_t i = 0; i < count; ++i) all[i] += more[i];
      }
    }
  });
}

}  // namespace longhaul::kernels
