#include "puzzles/sudoku/search.h"

#include <algorithm>
#include <utility>

#include "puzzles/sudoku/sudoku.h"

namespace longhaul::puzzles::sudoku {

const Search::Places& Search::places_of(int64_t side) {
  const auto made = [](int64_t of_side) {
    Places places{};
    const Boxes boxes = boxes_of(of_side);
    for (int64_t cell = 0; cell < of_side * of_side; ++cell) {
      const int64_t row = cell / of_side, column = cell % of_side,
                    box = row / boxes.rows * (of_side / boxes.columns) + column / boxes.columns;
      places[static_cast<size_t>(cell)] = {static_cast<uint8_t>(row),
                                           static_cast<uint8_t>(kLargestSide + column),
                                           static_cast<uint8_t>(2 * kLargestSide + box)};
    }
    return places;
  };
  static const Places four = made(4), six = made(6), nine = made(9);
  return side == 4 ? four : side == 6 ? six : nine;
}

Search::Search(const NumberGrid& board) : side_(board.rows), places_(&places_of(board.rows)) {
  for (size_t cell = 0; cell < board.cells.size(); ++cell) {
    where_[cell] = open_[cell] = static_cast<uint8_t>(cell);
  }
  open_count_ = board.cells.size();
  for (size_t cell = 0; cell < board.cells.size(); ++cell) {
    if (board.cells[cell] == kBlank) continue;
    consistent_ &= (free_digits(cell) >> board.cells[cell] & 1) != 0;
    put(cell, static_cast<int>(board.cells[cell]));
  }
}

void Search::put(size_t cell, int digit) {
  const uint8_t last = open_[--open_count_], place = where_[cell];
  open_[place] = last, where_[last] = place;
  open_[open_count_] = static_cast<uint8_t>(cell), where_[cell] = static_cast<uint8_t>(open_count_);
  cells_[cell] = static_cast<uint8_t>(digit);
  flip(cell);
}

void Search::undo(size_t open_count) {
  while (open_count_ < open_count) flip(open_[open_count_++]);
}

void Search::remove(size_t cell) {
  flip(cell);
  const uint8_t other = open_[open_count_], place = where_[cell];
  open_[place] = other, where_[other] = place;
  open_[open_count_] = static_cast<uint8_t>(cell), where_[cell] = static_cast<uint8_t>(open_count_);
  ++open_count_;
}

bool Search::is_plain(size_t cell, int64_t digit) const {
  const uint32_t bit = 1U << digit;
  if (free_digits(cell) == bit) return true;
  std::array<bool, 3> other_place{};  // in the row, the column and the box of the cell
  for (size_t i = 0; i < open_count_; ++i) {
    const size_t other = open_[i];
    if (other == cell || (free_digits(other) & bit) == 0) continue;
    for (size_t kind = 0; kind < 3; ++kind) other_place[kind] |= units(other)[kind] == units(cell)[kind];
  }
  return std::ranges::find(other_place, false) != other_place.end();
}

// Cells with one digit left; the cell with the fewest, where none had.
size_t Search::fill_lone_cells(bool& filled) {
  once_ = {}, twice_ = {};
  size_t best = kFull;
  int fewest = 100;
  for (size_t i = 0; i < open_count_;) {
    const size_t cell = open_[i];
    const uint32_t free = free_digits(cell);
    if (free == 0) return kNone;
    if ((free & (free - 1)) == 0) {
      put(cell, std::countr_zero(free));  // another cell takes its place in the list
      filled = true;
      continue;
    }
    for (const uint8_t unit : units(cell)) twice_[unit] |= once_[unit] & free, once_[unit] |= free;
    if (fewest > 2) {
      if (const int count = bit_count(free); count < fewest) best = cell, fewest = count;
    }
    ++i;
  }
  return best;
}

// Digits with one cell left in a unit, by what fill_lone_cells() saw. False: one has none.
bool Search::fill_lone_places(bool& filled) {
  std::array<uint32_t, 3 * kLargestSide> lone{};
  uint32_t any = 0;
  for (int64_t kind = 0; kind < 3; ++kind) {
    for (int64_t i = 0; i < side_; ++i) {
      const auto unit = static_cast<size_t>(kind * kLargestSide + i);
      if ((all() & ~(used_[unit] | once_[unit])) != 0) return false;
      lone[unit] = once_[unit] & ~twice_[unit];
      any |= lone[unit];
    }
  }
  if (any == 0) return true;
  for (size_t i = 0; i < open_count_;) {
    const size_t cell = open_[i];
    const auto& [row, column, box] = units(cell);
    const uint32_t digits = free_digits(cell) & (lone[row] | lone[column] | lone[box]);
    if (digits == 0) {
      ++i;
      continue;
    }
    if ((digits & (digits - 1)) != 0) return false;  // two digits have this cell alone
    put(cell, std::countr_zero(digits));
    filled = true;
  }
  return true;
}

size_t Search::settle(SearchBudget& budget) {
  for (;;) {
    if (!budget.spend()) return kNone;
    bool filled = false;
    const size_t best = fill_lone_cells(filled);
    if (best == kNone || (open_count_ == 0)) return best == kNone ? kNone : kFull;
    if (!filled && !fill_lone_places(filled)) return kNone;
    if (!filled) return best;
  }
}

}  // namespace longhaul::puzzles::sudoku
