#include <array>
#include <vector>

#include "puzzles/minesweeper/minesweeper.h"

namespace longhaul::puzzles::minesweeper {
namespace {

// Calls `each(cell)` for the cells around one that are hidden.
template <class Each>
void for_each_hidden(const NumberGrid& grid, int64_t row, int64_t column, const Each& each) {
  for (int64_t r = row - 1; r <= row + 1; ++r) {
    for (int64_t c = column - 1; c <= column + 1; ++c) {
      if (grid.holds(r, c) && grid.at(r, c) == kBlank) each(static_cast<size_t>(r * grid.columns + c));
    }
  }
}

// What is known of each cell, and whether the rest of `mines`, an arrangement that fits all numbers, would
// fit it. A number whose rest would not is `off`: a search for another arrangement changes cells beside such
// numbers alone, and leaves all others as they are.
class Arrangements {
 public:
  Arrangements(const NumberGrid& grid, const CellSet& mines) {
    for (size_t cell = 0; cell < grid.cells.size(); ++cell)
      truth_[cell] = mines.has(static_cast<int64_t>(cell)) ? kMine : kSafe;
    for (int64_t r = 0; r < grid.rows; ++r) {
      for (int64_t c = 0; c < grid.columns; ++c) {
        if (grid.at(r, c) == kBlank) continue;
        Number number{.left = grid.at(r, c)};
        for_each_hidden(grid, r, c, [&](size_t cell) {
          number.cells[static_cast<size_t>(number.open++)] = static_cast<uint8_t>(cell);
          beside_[cell].add(numbers_.size());
        });
        number.count = number.open;
        waiting_.push_back(numbers_.size());
        numbers_.push_back(number);
      }
    }
  }

  bool is_open(int64_t cell) const { return state_[static_cast<size_t>(cell)] == kOpen; }
  bool is_mine(int64_t cell) const { return state_[static_cast<size_t>(cell)] == kMine; }
  size_t known() const { return trail_.size(); }
  template <class Each>
  void for_each_safe_since(size_t known, const Each& each) const {
    for (size_t i = known; i < trail_.size(); ++i) {
      if (state_[trail_[i]] == kSafe) each(static_cast<int64_t>(trail_[i]));
    }
  }

  // Takes what follows from single numbers, one after the other. False: a number cannot be right any more.
  bool narrow() {
    while (!waiting_.empty()) {
      const Number& number = numbers_[waiting_.back()];
      waiting_.pop_back();
      if (number.left < 0 || number.left > number.open) return waiting_.clear(), false;
      if (number.open == 0 || (number.left != 0 && number.left != number.open)) continue;
      const State state = number.left == 0 ? kSafe : kMine;
      for (int64_t i = 0; i < number.count; ++i) {
        const size_t cell = number.cells[static_cast<size_t>(i)];
        if (state_[cell] == kOpen) set(cell, state);
      }
    }
    return true;
  }
  bool assume(int64_t cell, bool mine) {
    set(static_cast<size_t>(cell), mine ? kMine : kSafe);
    return narrow();
  }
  void forget_since(size_t known) {
    while (trail_.size() > known) {
      const size_t cell = trail_.back();
      trail_.pop_back();
      change(cell, state_[cell], -1);
      state_[cell] = kOpen;
    }
  }

  // Whether there is an arrangement with what is known; then more is known, and the rest of `mines` fits it.
  // False, too, when the budget is spent.
  bool complete(SearchBudget& budget) {
    if (!budget.spend()) return false;
    const Number* best = nullptr;
    for (const Number& number : numbers_) {
      if (number.off != 0 && (best == nullptr || number.open < best->open)) best = &number;
    }
    if (best == nullptr) return true;
    size_t cell = 0;
    for (int64_t i = 0; i < best->count; ++i) {
      cell = best->cells[static_cast<size_t>(i)];
      if (state_[cell] == kOpen) break;
    }
    const bool mine = truth_[cell] == kMine;
    for (const bool way : {!mine, mine}) {
      const size_t before = known();
      if (assume(static_cast<int64_t>(cell), way) && complete(budget)) return true;
      forget_since(before);
    }
    return false;
  }

 private:
  enum State : uint8_t { kOpen, kMine, kSafe };
  struct Number {
    std::array<uint8_t, 8> cells{};  // hidden beside it
    int64_t count = 0;               // of these
    int64_t open = 0, left = 0;      // cells of which nothing is known, and the mines among them
    int64_t off = 0;                 // `left` less the mines that `mines` has there
  };
  struct Beside {  // the numbers beside a cell
    std::array<uint8_t, 8> all{};
    size_t count = 0;
    void add(size_t number) { all[count++] = static_cast<uint8_t>(number); }
  };

  void set(size_t cell, State state) {
    state_[cell] = state;
    trail_.push_back(cell);
    change(cell, state, 1);
  }
  void change(size_t cell, State state, int64_t by) {
    for (size_t i = 0; i < beside_[cell].count; ++i) {
      Number& number = numbers_[beside_[cell].all[i]];
      number.open -= by;
      if (state == kMine) number.left -= by, number.off -= by;
      if (truth_[cell] == kMine) number.off += by;
      if (by > 0) waiting_.push_back(beside_[cell].all[i]);
    }
  }

  std::vector<Number> numbers_;
  std::array<Beside, kMostCells> beside_{};
  std::array<State, kMostCells> state_{}, truth_{};
  std::vector<size_t> trail_, waiting_;
};

}  // namespace

CellSet single_mines(const NumberGrid& grid) {
  CellSet mines;
  for (int64_t r = 0; r < grid.rows; ++r) {
    for (int64_t c = 0; c < grid.columns; ++c) {
      if (grid.at(r, c) == kBlank) continue;
      CellSet hidden;
      for_each_hidden(grid, r, c, [&](size_t cell) { hidden.add(static_cast<int64_t>(cell)); });
      if (hidden.count() == grid.at(r, c)) mines |= hidden;
    }
  }
  return mines;
}

std::optional<CellSet> certain_mines(const NumberGrid& grid, const CellSet& mines, SearchBudget& budget) {
  Arrangements arrangements(grid, mines);
  arrangements.narrow();  // what follows here holds in every arrangement
  CellSet touched, certain;
  for (int64_t r = 0; r < grid.rows; ++r) {
    for (int64_t c = 0; c < grid.columns; ++c) {
      if (grid.at(r, c) != kBlank)
        for_each_hidden(grid, r, c, [&](size_t cell) { touched.add(static_cast<int64_t>(cell)); });
    }
  }
  CellSet open = mines & touched;
  while (!open.empty()) {
    const int64_t cell = open.first();
    open.remove(cell);
    if (arrangements.is_mine(cell)) {
      certain.add(cell);
      continue;
    }
    const size_t before = arrangements.known();
    const bool other = arrangements.assume(cell, false) && arrangements.complete(budget);
    if (other) arrangements.for_each_safe_since(before, [&](int64_t safe) { open.remove(safe); });
    arrangements.forget_since(before);
    if (other) continue;
    if (budget.spent()) return std::nullopt;
    certain.add(cell);
    arrangements.assume(cell, true);
  }
  return certain;
}

}  // namespace longhaul::puzzles::minesweeper
