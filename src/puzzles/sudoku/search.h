// The search for solutions of a sudoku: cells with one digit left and digits with one cell left are settled
// before anything is tried, and what is tried is a cell with the fewest digits. Copies are cheap, so that a
// generator takes digits away from one search and tries each step in a copy.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "puzzles/engine/bits.h"
#include "puzzles/engine/grids/grid.h"
#include "puzzles/engine/search.h"

namespace longhaul::puzzles::sudoku {

inline constexpr int64_t kLargestSide = 9;

class Search {
 public:
  explicit Search(const NumberGrid& board);
  bool is_consistent() const { return consistent_; }  // no digit stands twice in a unit
  int64_t digit(size_t cell) const { return cells_[cell]; }

  void remove(size_t cell);  // its digit, so that the cell is open
  // Whether the open cell can hold no other digit than this by a look at its units alone.
  bool is_plain(size_t cell, int64_t digit) const;
  // Solutions have another digit in the open `cell`.
  void refuse(size_t cell, int64_t digit) {
    refused_cell_ = cell;
    refused_digit_ = 1U << digit;
  }

  // Calls `found` for each solution until it returns false. `choose(digits)` picks which of some digits, as
  // bits, is tried next.
  template <class Choose, class Found>
  bool run(SearchBudget& budget, const Choose& choose, const Found& found) {
    if (!consistent_) return true;
    const size_t open = open_count_;
    const size_t cell = settle(budget);
    bool go_on = !budget.spent();
    if (cell == kFull) go_on = found();
    if (cell < cells_.size()) {
      for (uint32_t left = free_digits(cell); left != 0 && go_on;) {
        const int digit = choose(left);
        left &= ~(1U << digit);
        const size_t before = open_count_;
        put(cell, digit);
        go_on = run(budget, choose, found);
        undo(before);
      }
    }
    undo(open);
    return go_on;
  }

 private:
  static constexpr size_t kFull = 255, kNone = 254;  // cells that settle() tells of: no open one, no way
  static constexpr size_t kMostCells = kLargestSide * kLargestSide;

  // Fills what is certain; the cell that is to be tried next.
  size_t settle(SearchBudget& budget);
  size_t fill_lone_cells(bool& filled);
  bool fill_lone_places(bool& filled);
  void put(size_t cell, int digit);
  void undo(size_t open_count);  // opens the cells that were filled last
  void flip(size_t cell) {
    for (const uint8_t unit : units(cell)) used_[unit] ^= 1U << cells_[cell];
  }
  const std::array<uint8_t, 3>& units(size_t cell) const { return (*places_)[cell]; }
  uint32_t all() const { return ((1U << side_) - 1) << 1; }
  uint32_t free_digits(size_t cell) const {
    const auto& [row, column, box] = units(cell);
    const uint32_t refused = cell == refused_cell_ ? refused_digit_ : 0;
    return all() & ~(used_[row] | used_[column] | used_[box] | refused);
  }

  using Places = std::array<std::array<uint8_t, 3>, kMostCells>;  // the row, column and box of each cell
  static const Places& places_of(int64_t side);

  int64_t side_;
  const Places* places_;
  std::array<uint8_t, kMostCells> cells_{}, open_{}, where_{};  // where_: of a cell in open_
  size_t open_count_ = 0, refused_cell_ = kMostCells;           // open cells come first in open_
  uint32_t refused_digit_ = 0;
  std::array<uint32_t, 3 * kLargestSide> used_{}, once_{}, twice_{};  // digits by unit
  bool consistent_ = true;
};

}  // namespace longhaul::puzzles::sudoku
