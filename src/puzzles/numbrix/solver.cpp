#include <vector>

#include "puzzles/engine/grids/cells.h"
#include "puzzles/numbrix/numbrix.h"

namespace longhaul::puzzles::numbrix {
namespace {

// Each number has the cells in which it may stand. A number stands beside the one before and the one after; a
// number that has one cell keeps all others out of it; a cell that one number only can take has that number.
class Search {
 public:
  Search(const NumberGrid& board, SearchBudget& budget, const std::function<bool(const NumberGrid&)>& found)
      : board_(board), near_(board.rows, board.columns), budget_(budget), found_(found) {}

  void run() {
    CellSet open;
    for (size_t cell = 0; cell < board_.cells.size(); ++cell) {
      if (board_.cells[cell] == kBlank) open.add(static_cast<int64_t>(cell));
    }
    Places may(board_.cells.size(), open);
    for (size_t cell = 0; cell < board_.cells.size(); ++cell) {
      if (board_.cells[cell] == kBlank) continue;
      CellSet& own = may[static_cast<size_t>(board_.cells[cell] - 1)];
      own = CellSet();
      own.add(static_cast<int64_t>(cell));
    }
    step(may);
  }

 private:
  using Places = std::vector<CellSet>;  // [number - 1]

  bool narrowed_by_neighbours(Places& may, bool& changed) const {
    const auto narrow = [&](CellSet& own, const CellSet& other) {
      const CellSet left = own & near_.beside_any(other);
      changed = changed || left != own;
      own = left;
      return !own.empty();
    };
    for (size_t i = 1; i < may.size(); ++i) {
      if (!narrow(may[i], may[i - 1])) return false;
    }
    for (size_t i = may.size() - 1; i > 0; --i) {
      if (!narrow(may[i - 1], may[i])) return false;
    }
    return true;
  }

  bool narrowed_by_others(Places& may, bool& changed) const {
    CellSet once, twice, alone;
    for (const CellSet& own : may) {
      twice |= once & own;
      once |= own;
      if (own.count() != 1) continue;
      if (alone.meets(own)) return false;
      alone |= own;
    }
    if (once != near_.all()) return false;
    const CellSet only = once.without(twice);
    for (CellSet& own : may) {
      const CellSet before = own, hidden = own & only;
      if (before.count() == 1) continue;
      if (hidden.count() > 1) return false;
      own = hidden.empty() ? own.without(alone) : hidden;
      if (own.empty()) return false;
      changed = changed || own != before;
    }
    return true;
  }

  bool step(Places may) {
    if (!budget_.spend()) return false;
    for (bool changed = true; changed;) {
      changed = false;
      if (!narrowed_by_neighbours(may, changed) || !narrowed_by_others(may, changed)) return true;
    }
    size_t best = may.size();
    int64_t fewest = kMostCells + 1;
    for (size_t i = 0; i < may.size() && fewest > 2; ++i) {
      const int64_t count = may[i].count();
      if (count > 1 && count < fewest) best = i, fewest = count;
    }
    if (best == may.size()) {
      NumberGrid grid(board_.rows, board_.columns);
      for (size_t i = 0; i < may.size(); ++i)
        grid.cells[static_cast<size_t>(may[i].first())] = static_cast<int64_t>(i) + 1;
      return found_(grid);
    }
    for (const int64_t cell : may[best].cells()) {
      Places with = may;
      with[best] = CellSet();
      with[best].add(cell);
      if (!step(std::move(with))) return false;
    }
    return true;
  }

  const NumberGrid& board_;
  Neighbours near_;
  SearchBudget& budget_;
  const std::function<bool(const NumberGrid&)>& found_;
};

}  // namespace

void solve(const NumberGrid& board, SearchBudget& budget,
           const std::function<bool(const NumberGrid&)>& found) {
  Search(board, budget, found).run();
}

}  // namespace longhaul::puzzles::numbrix
