#include <array>
#include <vector>

#include "puzzles/engine/bits.h"
#include "puzzles/engine/grids/regions.h"
#include "puzzles/star_placement_puzzle/star_placement_puzzle.h"

namespace longhaul::puzzles::star_placement_puzzle {
namespace {

// The row, column or region that has the fewest cells to spare comes next: one of its cells has a star, or
// has none. What follows is taken at once: a line that has its stars closes its other cells, and one with no
// cell to spare has stars in all of them. A trail of what was done leads back.
class Search {
 public:
  Search(const Board& board, SearchBudget& budget, const std::function<bool(const CellSet&)>& found,
         const CellSet& likely)
      : near_(board.letters.rows, board.letters.rows), budget_(budget), found_(found), likely_(likely) {
    const auto side = static_cast<size_t>(board.letters.rows);
    const bool regions = !board.regions.cells.empty();
    lines_.resize(regions ? 3 * side : 2 * side);
    for (size_t cell = 0; cell < side * side; ++cell) {
      lines_of_[cell] = {
          static_cast<uint8_t>(cell / side), static_cast<uint8_t>(side + cell % side),
          static_cast<uint8_t>(regions ? 2 * side + static_cast<size_t>(board.regions.cells[cell])
                                       : cell / side)};
      open_[cell] = true;
      for (size_t kind = 0; kind < (regions ? 3U : 2U); ++kind)
        lines_[lines_of_[cell][kind]].cells.push_back(static_cast<uint8_t>(cell));
    }
    kinds_ = regions ? 3 : 2;
    for (Line& line : lines_) {
      line.open = static_cast<int64_t>(line.cells.size());
      line.wanted = board.stars;
    }
  }

  void run() {
    for (size_t line = 0; line < lines_.size(); ++line) waiting_.push_back(line);
    if (narrow()) step();
  }

 private:
  struct Line {
    std::vector<uint8_t> cells;
    int64_t open = 0, wanted = 0;  // cells that may still have a star, and stars that are not placed yet
  };

  void close(size_t cell) {
    if (!open_[cell]) return;
    open_[cell] = false;
    trail_.push_back(cell);
    for (size_t kind = 0; kind < kinds_; ++kind) {
      Line& line = lines_[lines_of_[cell][kind]];
      if (--line.open <= line.wanted) waiting_.push_back(lines_of_[cell][kind]);
    }
  }
  void place(size_t cell) {
    close(cell);
    trail_.push_back(cell | kStar);
    placed_.add(static_cast<int64_t>(cell));
    for (size_t kind = 0; kind < kinds_; ++kind) {
      if (--lines_[lines_of_[cell][kind]].wanted == 0) waiting_.push_back(lines_of_[cell][kind]);
    }
    near_.around(static_cast<int64_t>(cell)).for_each([&](int64_t other) {
      close(static_cast<size_t>(other));
    });
  }
  void undo(size_t length) {
    for (; trail_.size() > length; trail_.pop_back()) {
      const size_t cell = trail_.back() & ~kStar;
      const bool star = (trail_.back() & kStar) != 0;
      if (star) placed_.remove(static_cast<int64_t>(cell));
      open_[cell] = !star;
      for (size_t kind = 0; kind < kinds_; ++kind) {
        Line& line = lines_[lines_of_[cell][kind]];
        (star ? line.wanted : line.open) += 1;
      }
    }
  }
  // A star beside so many open cells of a line that it could not have its own any more cannot be there.
  // True: a cell was closed.
  bool close_around_lines() {
    constexpr int64_t kShort = 8;  // open cells of a line of which this is asked; longer ones hardly tell
    const size_t before = trail_.size();
    for (const Line& line : lines_) {
      if (line.wanted <= 0 || line.open > kShort) continue;
      CellSet own, all = near_.all();
      for (const uint8_t cell : line.cells) {
        if (!open_[cell]) continue;
        own.add(cell);
        if (line.wanted == 1) all &= near_.around(cell);  // a star there would close all of them
      }
      const CellSet near = line.wanted == 1 ? all : near_.around_any(own);
      near.for_each([&](int64_t cell) {
        if (!open_[static_cast<size_t>(cell)]) return;
        const int64_t wanted = line.wanted - (own.has(cell) ? 1 : 0);
        CellSet rest = own.without(near_.around(cell));
        rest.remove(cell);
        if (rest.count() < wanted) close(static_cast<size_t>(cell));
      });
    }
    return trail_.size() > before;
  }
  // False: a line cannot have its stars any more.
  bool narrow() {
    do {
      if (!narrow_lines()) return false;
    } while (close_around_lines());
    return narrow_lines();
  }
  bool narrow_lines() {
    while (!waiting_.empty()) {
      const Line& line = lines_[waiting_.back()];
      waiting_.pop_back();
      if (line.wanted < 0 || line.open < line.wanted) return waiting_.clear(), false;
      if (line.open == 0 || (line.wanted != 0 && line.open != line.wanted)) continue;
      const bool star = line.wanted != 0;
      for (const uint8_t cell : line.cells) {
        if (!open_[cell]) continue;
        star ? place(cell) : close(cell);
      }
    }
    return true;
  }

  bool step() {
    const size_t length = trail_.size();
    for (;;) {
      if (!budget_.spend()) break;
      const Line* best = nullptr;
      for (const Line& line : lines_) {
        if (line.wanted > 0 && (best == nullptr || line.open - line.wanted < best->open - best->wanted))
          best = &line;
      }
      if (best == nullptr) {
        const bool go_on = found_(placed_);
        undo(length);
        return go_on;
      }
      size_t cell = kStar;
      for (const uint8_t each : best->cells) {
        if (open_[each] && (cell == kStar || likely_.has(each))) cell = each;
      }
      const size_t before = trail_.size();
      place(cell);
      if (narrow() && !step()) break;
      undo(before);
      close(cell);
      if (!narrow()) {
        undo(length);
        return true;
      }
    }
    undo(length);
    return false;
  }

  static constexpr size_t kStar = 1024;  // on the trail: the star of a cell

  Neighbours near_;
  SearchBudget& budget_;
  const std::function<bool(const CellSet&)>& found_;
  const CellSet& likely_;
  size_t kinds_ = 0;
  std::vector<Line> lines_;
  std::array<std::array<uint8_t, 3>, kMostCells> lines_of_{};
  std::array<bool, kMostCells> open_{};
  std::vector<size_t> trail_, waiting_;
  CellSet placed_;
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

void solve(const Board& board, SearchBudget& budget, const std::function<bool(const CellSet&)>& found,
           const CellSet& likely) {
  Search(board, budget, found, likely).run();
}

std::optional<CellSet> random_stars(int64_t side, int64_t stars, Draw& draw) {
  return Placement(side, stars, draw).drawn();
}

}  // namespace longhaul::puzzles::star_placement_puzzle
