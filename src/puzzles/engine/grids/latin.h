// Latin squares: each number from 1 to the side once in each row and each column.
#pragma once

#include <cstdint>
#include <string>

#include "puzzles/engine/answers/verdict.h"
#include "puzzles/engine/draw.h"
#include "puzzles/engine/grids/grid.h"

namespace longhaul::puzzles {

// Every square may come: a row after the other, each cell with its numbers in any order, and back where
// nothing fits.
NumberGrid random_latin_square(int64_t side, Draw& draw);

// Accepted: numbers from 1 to the side, each once in each row and each column.
Verdict judged_as_latin(const NumberGrid& grid);

// A square that is being filled: which numbers a cell may still hold, as bits 1 … side.
class LatinCells {
 public:
  explicit LatinCells(int64_t side)
      : side_(side), rows_(static_cast<size_t>(side)), columns_(static_cast<size_t>(side)) {}
  uint32_t free(int64_t row, int64_t column) const {
    return all() & ~(rows_[static_cast<size_t>(row)] | columns_[static_cast<size_t>(column)]);
  }
  void put(int64_t row, int64_t column, int64_t number) { flip(row, column, number); }
  void take(int64_t row, int64_t column, int64_t number) { flip(row, column, number); }
  uint32_t all() const { return ((uint32_t{1} << side_) - 1) << 1; }

 private:
  void flip(int64_t row, int64_t column, int64_t number) {
    rows_[static_cast<size_t>(row)] ^= uint32_t{1} << number;
    columns_[static_cast<size_t>(column)] ^= uint32_t{1} << number;
  }
  int64_t side_;
  std::vector<uint32_t> rows_, columns_;
};

}  // namespace longhaul::puzzles
