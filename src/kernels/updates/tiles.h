// How matrices are shared among a CPU's threads where a step needs sums over their rows and columns (factored.h): in tiles of some rows, which do not depend
// on the number of threads, and neither do sums over tiles, which are added up in their order (TileSums): so no bit does.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

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
  std::vector<Sizes> matrices_;
  std::vector<Place> tiles_;
};

// body(matrix) of all matrices that need nothing of each other, for whoever makes all passes over one of them while it lies in a cache: small ones are a
// thread's each, so that nobody waits between passes, larger ones come one after the other, for all threads inside body.
void each_alone(const std::vector<int64_t>& elements, const std::function<void(size_t matrix)>& body);

// Numbers of rows and of columns, from zero; rows lie in one tile, columns are added up over tiles (or the largest is found) by settle().
class TileSums {
 public:
  enum class How { kSum, kLargest };
  explicit TileSums(const TilePlan& plan);
  double* rows(const TilePlan::Place& place) { return at(rows_[place.matrix] + place.row); }
  double* columns(const TilePlan::Place& place) { return at(columns_[place.tile] + place.column); }
  void settle(How how);
  const double* rows_of(size_t matrix) { return at(rows_[matrix]); }
  const double* columns_of(size_t matrix) { return at(columns_[first_tile_[matrix]]); }

 private:
  double* at(int64_t place) { return numbers_.data() + place; }
  const TilePlan& plan_;
  std::vector<int64_t> rows_, columns_;  // where those of a matrix begin, and those of a tile
  std::vector<size_t> first_tile_;       // of a matrix
  std::vector<double> numbers_;
};

}  // namespace longhaul::kernels
