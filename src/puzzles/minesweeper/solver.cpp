#include <vector>

#include "puzzles/minesweeper/minesweeper.h"

namespace longhaul::puzzles::minesweeper {
namespace {

struct Number {
  CellSet hidden;  // beside it, at sides and corners
  int64_t mines = 0;
};

std::vector<Number> numbers_of(const NumberGrid& grid) {
  const Neighbours near(grid.rows, grid.columns);
  CellSet hidden;
  for (size_t cell = 0; cell < grid.cells.size(); ++cell) {
    if (grid.cells[cell] == kBlank) hidden.add(static_cast<int64_t>(cell));
  }
  std::vector<Number> numbers;
  for (size_t cell = 0; cell < grid.cells.size(); ++cell) {
    if (grid.cells[cell] != kBlank) numbers.push_back({near.around(static_cast<int64_t>(cell)) & hidden, grid.cells[cell]});
  }
  return numbers;
}

// One arrangement of mines that fits the numbers.
class Search {
 public:
  Search(const std::vector<Number>& numbers, SearchBudget& budget) : numbers_(numbers), budget_(budget) {}

  // With what is known of some cells. None: there is none, or the budget was spent. Cells that no number touches stay as they are.
  std::optional<CellSet> run(const CellSet& mines, const CellSet& safe) {
    if (!step(mines, safe)) return std::nullopt;
    return found_;
  }

 private:
  bool narrowed(CellSet& mines, CellSet& safe) const {
    for (bool changed = true; changed;) {
      changed = false;
      for (const Number& number : numbers_) {
        const int64_t wanted = number.mines - (number.hidden & mines).count();
        const CellSet open = number.hidden.without(mines).without(safe);
        const int64_t count = open.count();
        if (wanted < 0 || wanted > count) return false;
        if (count == 0 || (wanted != 0 && wanted != count)) continue;
        (wanted == 0 ? safe : mines) |= open;
        changed = true;
      }
    }
    return true;
  }

  bool step(CellSet mines, CellSet safe) {
    if (!budget_.spend() || !narrowed(mines, safe)) return false;
    CellSet best;  // the open cells of the number that has the fewest
    for (const Number& number : numbers_) {
      const CellSet open = number.hidden.without(mines).without(safe);
      if (!open.empty() && (best.empty() || open.count() < best.count())) best = open;
    }
    const int64_t cell = best.first();
    if (cell < 0) {
      found_ = mines;
      return true;
    }
    CellSet with = mines, rest = safe;
    with.add(cell);
    rest.add(cell);
    return step(with, safe) || step(mines, rest);
  }

  const std::vector<Number>& numbers_;
  SearchBudget& budget_;
  CellSet found_;
};

// An arrangement without a mine in `cell`. What is near by decides almost always: if its numbers alone cannot be right, none can; and if they
// can with all other mines as they are, that is one.
std::optional<CellSet> arranged_without(int64_t cell, const std::vector<Number>& numbers, const CellSet& mines, const Neighbours& near,
                                        SearchBudget& budget) {
  constexpr int kNear = 3;  // cells
  CellSet safe, close;
  safe.add(cell);
  close.add(cell);
  for (int way = 0; way < kNear; ++way) close = near.around_any(close);
  std::vector<Number> some;
  for (const Number& number : numbers) {
    if (number.hidden.meets(close)) some.push_back(number);
  }
  if (!Search(some, budget).run({}, safe)) return std::nullopt;
  const CellSet far = near.all().without(close);
  if (const auto other = Search(some, budget).run(mines & far, safe | far.without(mines))) return other;
  return Search(numbers, budget).run({}, safe);
}

}  // namespace

CellSet single_mines(const NumberGrid& grid) {
  CellSet mines;
  for (const Number& number : numbers_of(grid)) {
    if (number.hidden.count() == number.mines) mines |= number.hidden;
  }
  return mines;
}

std::optional<CellSet> certain_mines(const NumberGrid& grid, const CellSet& mines, SearchBudget& budget) {
  const Neighbours near(grid.rows, grid.columns);
  const std::vector<Number> numbers = numbers_of(grid);
  CellSet touched;
  for (const Number& number : numbers) touched |= number.hidden;
  CellSet certain = single_mines(grid), open = (mines & touched).without(certain);
  while (!open.empty()) {
    const int64_t cell = open.first();
    open.remove(cell);
    if (const auto other = arranged_without(cell, numbers, mines, near, budget)) {
      open &= *other;
    } else if (budget.spent()) {
      return std::nullopt;
    } else {
      certain.add(cell);
    }
  }
  return certain;
}

}  // namespace longhaul::puzzles::minesweeper
