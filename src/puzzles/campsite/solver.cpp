#include <algorithm>

#include "puzzles/campsite/campsite.h"

namespace longhaul::puzzles::campsite {
namespace {

// Tents and open cells; the row or column with the fewest ways comes next. A tree that one open cell is left
// for has its tent there.
class Search {
 public:
  Search(const Board& board, SearchBudget& budget, const std::function<bool(const CellSet&)>& found)
      : near_(board.grid.rows, board.grid.columns),
        budget_(budget),
        found_(found),
        trees_(board.trees()),
        places_(trees_.cells()) {
    const int64_t columns = board.grid.columns;
    for (size_t r = 0; r < board.rows.size(); ++r) {
      CellSet cells;
      for (int64_t c = 0; c < columns; ++c) cells.add(static_cast<int64_t>(r) * columns + c);
      lines_.push_back({cells, board.rows[r]});
    }
    for (size_t c = 0; c < board.columns.size(); ++c) {
      CellSet cells;
      for (int64_t r = 0; r < board.grid.rows; ++r) cells.add(r * columns + static_cast<int64_t>(c));
      lines_.push_back({cells, board.columns[c]});
    }
  }

  void run() { step(CellSet(), near_.beside_any(trees_).without(trees_)); }

 private:
  struct Line {
    CellSet cells;
    int64_t tents = 0;
  };

  void put(const CellSet& more, CellSet& tents, CellSet& open) const {
    tents |= more;
    open = open.without(more).without(near_.around_any(more));
  }

  // False: there is no solution.
  bool narrowed(CellSet& tents, CellSet& open) const {
    for (CellSet tents_before, open_before; tents_before != tents || open_before != open;) {
      tents_before = tents, open_before = open;
      for (const Line& line : lines_) {
        const int64_t wanted = line.tents - (line.cells & tents).count();
        const CellSet own = line.cells & open;
        if (wanted < 0 || wanted > own.count()) return false;
        if (wanted == 0) open = open.without(own);
        if (wanted > 0 && wanted == own.count()) {
          if (!apart(own)) return false;
          put(own, tents, open);
        }
      }
      for (const int64_t tree : places_) {
        if (near_.beside(tree).meets(tents)) continue;
        const CellSet own = near_.beside(tree) & open;
        if (own.empty()) return false;
        if (own.count() == 1) put(own, tents, open);
      }
    }
    return true;
  }

  bool apart(const CellSet& cells) const {
    return std::ranges::none_of(cells.cells(), [&](int64_t cell) { return near_.around(cell).meets(cells); });
  }

  bool step(CellSet tents, CellSet open) {
    if (!budget_.spend()) return false;
    if (!narrowed(tents, open)) return true;
    CellSet best;
    for (const Line& line : lines_) {
      const CellSet own = line.cells & open;
      if (!own.empty() && (best.empty() || own.count() < best.count())) best = own;
    }
    const int64_t cell = best.first();
    if (cell < 0) return !are_paired(trees_, tents, near_) || found_(tents);
    CellSet one, with = tents, rest = open;
    one.add(cell);
    put(one, with, rest);
    open.remove(cell);
    return step(with, rest) && step(tents, open);
  }

  Neighbours near_;
  SearchBudget& budget_;
  const std::function<bool(const CellSet&)>& found_;
  CellSet trees_;
  std::vector<int64_t> places_;  // of the trees
  std::vector<Line> lines_;
};

}  // namespace

// Augmenting paths: each tree looks for a tent, and sends a tree that has it already to another one.
bool are_paired(const CellSet& trees, const CellSet& tents, const Neighbours& near) {
  if (trees.count() != tents.count()) return false;
  std::vector<int64_t> tree_of(static_cast<size_t>(kMostCells), -1);
  CellSet asked;
  const std::function<bool(int64_t)> pair = [&](int64_t tree) {
    return std::ranges::any_of((near.beside(tree) & tents).cells(), [&](int64_t tent) {
      if (asked.has(tent)) return false;
      asked.add(tent);
      int64_t& other = tree_of[static_cast<size_t>(tent)];
      if (other >= 0 && !pair(other)) return false;
      other = tree;
      return true;
    });
  };
  return std::ranges::all_of(trees.cells(), [&](int64_t tree) {
    asked = CellSet();
    return pair(tree);
  });
}

void solve(const Board& board, SearchBudget& budget, const std::function<bool(const CellSet&)>& found) {
  Search(board, budget, found).run();
}

}  // namespace longhaul::puzzles::campsite
