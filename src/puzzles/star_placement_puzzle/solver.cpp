#include <bit>
#include <vector>

#include "puzzles/engine/bits.h"
#include "puzzles/engine/grids/regions.h"
#include "puzzles/star_placement_puzzle/star_placement_puzzle.h"

namespace longhaul::puzzles::star_placement_puzzle {
namespace {

// The row, column or region that has the fewest ways left comes next: one of its cells has a star, or has
// none.
class Search {
 public:
  Search(const Board& board, SearchBudget& budget, const std::function<bool(const CellSet&)>& found)
      : near_(board.letters.rows, board.letters.rows), stars_(board.stars), budget_(budget), found_(found) {
    const int64_t side = board.letters.rows;
    for (int64_t i = 0; i < side; ++i) {
      CellSet row, column;
      for (int64_t j = 0; j < side; ++j) row.add(i * side + j), column.add(j * side + i);
      lines_.push_back(row);
      lines_.push_back(column);
    }
    if (!board.regions.cells.empty()) {
      for (const CellSet& region : cells_of_regions(board.regions)) lines_.push_back(region);
    }
  }

  void run() { step(CellSet(), near_.all()); }

 private:
  // `open`: cells that may still have a star.
  bool step(CellSet placed, CellSet open) {
    if (!budget_.spend()) return false;
    const CellSet* best = nullptr;
    int64_t fewest = 0;
    for (const CellSet& line : lines_) {
      const int64_t wanted = stars_ - (line & placed).count();
      if (wanted < 0) return true;
      if (wanted == 0) {
        open = open.without(line);
        continue;
      }
      const int64_t spare = (line & open).count() - wanted;
      if (spare < 0) return true;
      if (best == nullptr || spare < fewest) best = &line, fewest = spare;
    }
    if (best == nullptr) return found_(placed);
    const int64_t cell = (*best & open).first();
    if (cell < 0) return true;  // another line has closed what was open
    CellSet with = placed, rest = open;
    with.add(cell);
    rest.remove(cell);
    if (!step(with, rest.without(near_.around(cell)))) return false;
    return fewest == 0 || step(placed, rest);
  }

  Neighbours near_;
  int64_t stars_;
  SearchBudget& budget_;
  const std::function<bool(const CellSet&)>& found_;
  std::vector<CellSet> lines_;
};

// Rows are filled in order, each with its stars in any order, and back where nothing fits.
class Placement {
 public:
  Placement(int64_t side, int64_t stars, Draw& draw)
      : side_(side), stars_(stars), draw_(draw), used_(static_cast<size_t>(side)) {
    for (uint32_t row = 0; row < 1U << side; ++row) {
      if (bit_count(row) == stars && (row & row << 1) == 0) rows_.push_back(row);
    }
  }
  std::optional<CellSet> drawn() {
    if (!fill(0, 0)) return std::nullopt;
    return placed_;
  }

 private:
  bool fill(int64_t row, uint32_t before) {
    if (row == side_) return true;
    if (!budget_.spend()) return false;
    std::vector<uint32_t> order = rows_;
    draw_.shuffle(order);
    for (const uint32_t stars : order) {
      if ((stars & (before | before << 1 | before >> 1)) != 0 || !put(row, stars, 1)) continue;
      if (fill(row + 1, stars)) return true;
      put(row, stars, -1);
    }
    return false;
  }
  // False, with nothing changed: a column would have too many stars, or too few rows for those that it wants.
  bool put(int64_t row, uint32_t stars, int64_t direction) {
    for (int64_t c = 0; c < side_ && direction > 0; ++c) {
      const int64_t used = used_[static_cast<size_t>(c)] + (stars >> c & 1);
      if (used > stars_ || stars_ - used > side_ - 1 - row) return false;
    }
    for (int64_t c = 0; c < side_; ++c) {
      if ((stars >> c & 1) == 0) continue;
      used_[static_cast<size_t>(c)] += direction;
      direction > 0 ? placed_.add(row * side_ + c) : placed_.remove(row * side_ + c);
    }
    return true;
  }

  int64_t side_, stars_;
  Draw& draw_;
  SearchBudget budget_{.nodes = 20'000};
  std::vector<uint32_t> rows_;
  std::vector<int64_t> used_;  // stars of each column so far
  CellSet placed_;
};

}  // namespace

void solve(const Board& board, SearchBudget& budget, const std::function<bool(const CellSet&)>& found) {
  Search(board, budget, found).run();
}

std::optional<CellSet> random_stars(int64_t side, int64_t stars, Draw& draw) {
  return Placement(side, stars, draw).drawn();
}

}  // namespace longhaul::puzzles::star_placement_puzzle
