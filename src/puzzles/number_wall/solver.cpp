#include <vector>

#include "puzzles/number_wall/number_wall.h"

namespace longhaul::puzzles::number_wall {
namespace {

// Cells are land, wall, or neither. Land that touches, even at a corner, is one island. What is known of an
// island grows from its number.
class Search {
 public:
  Search(const NumberGrid& board, SearchBudget& budget, const std::function<bool(const CellSet&)>& found)
      : rows_(board.rows),
        columns_(board.columns),
        near_(board.rows, board.columns),
        budget_(budget),
        found_(found) {
    for (size_t cell = 0; cell < board.cells.size(); ++cell) {
      if (board.cells[cell] == kBlank) continue;
      numbers_.push_back({static_cast<int64_t>(cell), board.cells[cell]});
      given_.add(static_cast<int64_t>(cell));
    }
  }

  void run() { step(given_, CellSet()); }

 private:
  struct Number {
    int64_t cell = 0, size = 0;
  };
  struct State {
    CellSet land, wall;
    CellSet edge;  // where the island that has the fewest ways may grow; empty: all are whole
  };

  bool narrowed_by_blocks(State& now) const {
    for (int64_t r = 0; r + 1 < rows_; ++r) {
      for (int64_t c = 0; c + 1 < columns_; ++c) {
        int64_t walls = 0, other = -1;
        for (const int64_t cell :
             {r * columns_ + c, r * columns_ + c + 1, (r + 1) * columns_ + c, (r + 1) * columns_ + c + 1}) {
          now.wall.has(cell) ? ++walls : other = cell;
        }
        if (walls == 4) return false;
        if (walls == 3) now.land.add(other);
      }
    }
    return true;
  }

  // Cells that an island of `size` may still come to have.
  CellSet reach(const CellSet& island, int64_t size, const CellSet& allowed) const {
    CellSet reached = island;
    for (int64_t left = size - island.count(); left > 0; --left)
      reached |= near_.beside_any(reached) & allowed;
    return reached;
  }

  bool narrowed_by_islands(State& now) const {
    std::vector<CellSet> islands;
    CellSet touched, twice;
    for (const Number& number : numbers_) {
      const CellSet& island = islands.emplace_back(near_.touching(number.cell, now.land));
      if (island.count() > number.size || (island & given_).count() > 1) return false;
      const CellSet around = near_.around_any(island).without(island);
      twice |= touched & around;
      touched |= around;
    }
    now.wall |= twice;
    if (now.wall.meets(now.land)) return false;
    now.edge = CellSet();
    CellSet reached;
    for (size_t i = 0; i < numbers_.size(); ++i) {
      const CellSet around = near_.around_any(islands[i]).without(islands[i]);
      if (islands[i].count() == numbers_[i].size) {
        if (!near_.is_connected(islands[i])) return false;
        now.wall |= around;
        reached |= islands[i];
        continue;
      }
      CellSet others;  // land that belongs to other numbers
      for (size_t j = 0; j < numbers_.size(); ++j) others = j == i ? others : others | islands[j];
      const CellSet allowed = near_.all().without(now.wall).without(near_.around_any(others));
      const CellSet own = reach(islands[i], numbers_[i].size, allowed),
                    edge = (near_.beside_any(islands[i]) & allowed).without(islands[i]);
      if (own.count() < numbers_[i].size || edge.empty()) return false;
      if (edge.count() == 1) now.land |= edge;
      if (now.edge.empty() || edge.count() < now.edge.count()) now.edge = edge;
      reached |= own;
    }
    if (!now.land.inside(reached)) return false;
    now.wall |= near_.all().without(reached);
    return !now.wall.meets(now.land);
  }

  bool step(const CellSet& land, const CellSet& wall) {
    if (!budget_.spend()) return false;
    State now{land, wall, {}};
    for (CellSet land_before, wall_before; land_before != now.land || wall_before != now.wall;) {
      land_before = now.land, wall_before = now.wall;
      if (!narrowed_by_blocks(now) || !narrowed_by_islands(now)) return true;
    }
    const int64_t cell = now.edge.without(now.land).first();
    if (cell < 0) return found_(now.land);
    CellSet more_land = now.land, more_wall = now.wall;
    more_land.add(cell);
    more_wall.add(cell);
    return step(more_land, now.wall) && step(now.land, more_wall);
  }

  int64_t rows_, columns_;
  Neighbours near_;
  SearchBudget& budget_;
  const std::function<bool(const CellSet&)>& found_;
  std::vector<Number> numbers_;
  CellSet given_;
};

}  // namespace

void solve(const NumberGrid& board, SearchBudget& budget, const std::function<bool(const CellSet&)>& found) {
  Search(board, budget, found).run();
}

}  // namespace longhaul::puzzles::number_wall
