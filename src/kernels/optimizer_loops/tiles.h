// Divides matrices among a CPU's threads when a step needs sums over their rows and columns (factored.h):
// in tiles of some rows. Neither the tiles nor the order in which sums over tiles are added (TileSums)
// depends on the number of threads, so no bit does.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/matmul/tasks.h"

namespace longhaul::kernels {

class TilePlan {
 public:
  struct Sizes {
    int64_t rows = 0, columns = 0;
  };
  struct Place {  // of a tile, or of a run inside it
    size_t matrix = 0, tile = 0;
    int64_t row = 0, column = 0, rows = 0;
  };
  TilePlan() = default;
  explicit TilePlan(std::vector<Sizes> matrices);
  size_t size() const { return matrices_.size(); }
  int64_t rows_of(size_t matrix) const { return matrices_[matrix].rows; }
  int64_t columns_of(size_t matrix) const { return matrices_[matrix].columns; }
  const std::vector<Place>& tiles() const { return tiles_; }
  // On all threads. body(matrix): for what is worked out from sums.
  void each_tile(const std::function<void(const Place& place)>& body) const;
  void each_matrix(const std::function<void(size_t matrix)>& body) const;

 private:
  friend class TileSums;
  void place_sums();

  std::vector<Sizes> matrices_;
  std::vector<Place> tiles_;
  TaskList<size_t> tasks_;  // the same
  // Of TileSums: where numbers of the rows of a matrix begin, and those of the columns of a tile; its first
  // tile; how many numbers there are.
  std::vector<int64_t> rows_at_, columns_at_;
  std::vector<size_t> first_tile_;
  int64_t numbers_ = 0;
};

// Calls body(matrix) for all matrices, which are independent of each other, when all passes over a matrix
// are made while it is in a cache. Small matrices are processed by one thread each, so that no thread waits
// between passes; larger ones come one after the other, with all threads inside body.
void each_alone(const std::vector<int64_t>& elements, const std::function<void(size_t matrix)>& body);

// Numbers of rows and of columns, from zero; rows lie in one tile, columns are added up over tiles (or the
// largest is found) by settle().
class TileSums {
 public:
  enum class How { kSum, kLargest };
  explicit TileSums(const TilePlan& plan) : plan_(plan), numbers_(static_cast<size_t>(plan.numbers_)) {}
  double* rows(const TilePlan::Place& place) { return at(plan_.rows_at_[place.matrix] + place.row); }
  double* columns(const TilePlan::Place& place) { return at(plan_.columns_at_[place.tile] + place.column); }
  void settle(How how);
  const double* rows_of(size_t matrix) { return at(plan_.rows_at_[matrix]); }
  const double* columns_of(size_t matrix) { return at(plan_.columns_at_[plan_.first_tile_[matrix]]); }

 private:
  double* at(int64_t place) { return numbers_.data() + place; }
  const TilePlan& plan_;
  std::vector<double> numbers_;
};

}  // namespace longhaul::kernels
