#include <algorithm>
#include <vector>

#include "puzzles/engine/grids/regions.h"
#include "puzzles/norinori/norinori.h"

namespace longhaul::puzzles::norinori {
namespace {

// Cells are covered, open, or closed, which is neither. A covered cell has one covered neighbour; a region
// has two covered cells. What follows is taken at once, and a trail of what was done leads back.
class Search {
 public:
  Search(const NumberGrid& regions, SearchBudget& budget, const std::function<bool(const CellSet&)>& found,
         const CellSet& likely)
      : budget_(budget),
        found_(found),
        likely_(likely),
        cells_(regions.cells.size()),
        regions_(static_cast<size_t>(std::ranges::max(regions.cells) + 1)) {
    const Neighbours near(regions.rows, regions.columns);
    for (size_t cell = 0; cell < cells_.size(); ++cell) {
      near.beside(static_cast<int64_t>(cell)).for_each([&](int64_t other) {
        cells_[cell].beside.push_back(static_cast<size_t>(other));
      });
      cells_[cell].open_beside = static_cast<int64_t>(cells_[cell].beside.size());
      cells_[cell].region = regions.cells[cell];
      if (Region* region = region_of(cell)) region->cells.push_back(cell), ++region->open;
    }
  }

  void run() {
    for (size_t cell = 0; cell < cells_.size(); ++cell) {
      if (region_of(cell) == nullptr) set(cell, kCovered);
      waiting_.push_back(cell);
    }
    if (narrow()) step();
  }

 private:
  enum State : uint8_t { kOpen, kCovered, kClosed };
  struct Cell {
    State state = kOpen;
    int64_t region = kBlank, open_beside = 0, covered_beside = 0;
    std::vector<size_t> beside;
    bool is_half() const { return state == kCovered && covered_beside == 0; }
  };
  struct Region {
    std::vector<size_t> cells;
    int64_t open = 0, covered = 0;
  };

  Region* region_of(size_t cell) {
    return cells_[cell].region == kBlank ? nullptr : &regions_[static_cast<size_t>(cells_[cell].region)];
  }
  void change(size_t cell, State state, int64_t by) {
    for (const size_t other : cells_[cell].beside) {
      cells_[other].open_beside -= by;
      if (state == kCovered) cells_[other].covered_beside += by;
    }
    if (Region* region = region_of(cell)) {
      region->open -= by;
      if (state == kCovered) region->covered += by;
    }
  }
  void set(size_t cell, State state) {  // of an open cell
    cells_[cell].state = state;
    trail_.push_back(cell);
    change(cell, state, 1);
    waiting_.push_back(cell);
    for (const size_t other : cells_[cell].beside) {
      waiting_.push_back(other);
      if (state != kCovered) continue;  // else those beside it may have lost a partner
      for (const size_t next : cells_[other].beside) waiting_.push_back(next);
    }
  }
  void undo(size_t length) {
    for (; trail_.size() > length; trail_.pop_back()) {
      change(trail_.back(), cells_[trail_.back()].state, -1);
      cells_[trail_.back()].state = kOpen;
    }
  }
  void set_open(const std::vector<size_t>& cells, State state) {
    for (const size_t cell : cells) {
      if (cells_[cell].state == kOpen) set(cell, state);
    }
  }

  // What follows from one cell and its region. False: there is no solution.
  bool follow(size_t cell) {
    const Cell& one = cells_[cell];
    if (one.state == kCovered) {
      if (one.covered_beside > 1 || one.covered_beside + one.open_beside == 0) return false;
      if (one.covered_beside == 1) set_open(one.beside, kClosed);
      if (one.covered_beside == 0 && one.open_beside == 1) set_open(one.beside, kCovered);
    }
    if (one.state == kOpen) {
      const bool has_partner = one.covered_beside <= 1 && std::ranges::any_of(one.beside, [&](size_t other) {
                                 const bool both =
                                     cells_[other].state == kOpen && cells_[other].covered_beside == 0;
                                 return (both && one.covered_beside == 0) || cells_[other].is_half();
                               });
      if (!has_partner) set(cell, kClosed);
    }
    const Region* region = region_of(cell);
    if (region == nullptr) return true;
    if (region->covered > 2 || region->covered + region->open < 2) return false;
    if (region->open == 0) return true;
    if (region->covered == 2 || region->covered + region->open == 2)
      set_open(region->cells, region->covered == 2 ? kClosed : kCovered);
    return true;
  }
  bool narrow() {
    while (!waiting_.empty()) {
      const size_t cell = waiting_.back();
      waiting_.pop_back();
      if (!follow(cell)) return waiting_.clear(), false;
    }
    return true;
  }

  // The cells, one of which must be covered, of the half domino, or else the region, with the fewest ways.
  const std::vector<size_t>* next_ways() const {
    const std::vector<size_t>* ways = nullptr;
    int64_t fewest = 0;
    for (const Cell& cell : cells_) {
      if (cell.is_half() && (ways == nullptr || cell.open_beside < fewest))
        ways = &cell.beside, fewest = cell.open_beside;
    }
    if (ways != nullptr) return ways;
    for (const Region& region : regions_) {
      if (region.open > 0 && (ways == nullptr || region.open < fewest))
        ways = &region.cells, fewest = region.open;
    }
    return ways;
  }

  bool step() {  // false: stop
    const size_t length = trail_.size();
    bool go_on = true;
    while (go_on) {
      go_on = budget_.spend();
      if (!go_on) break;
      const std::vector<size_t>* ways = next_ways();
      if (ways == nullptr) {
        go_on = found_(covered());
        break;
      }
      const auto is_likely = [&](size_t each) {
        return cells_[each].state == kOpen && likely_.has(static_cast<int64_t>(each));
      };
      auto found = std::ranges::find_if(*ways, is_likely);
      if (found == ways->end())
        found = std::ranges::find_if(*ways, [&](size_t each) { return cells_[each].state == kOpen; });
      const size_t cell = *found;
      const size_t before = trail_.size();
      set(cell, kCovered);
      if (narrow()) go_on = step();
      undo(before);
      if (!go_on) break;
      set(cell, kClosed);
      if (!narrow()) break;
    }
    undo(length);
    return go_on;
  }
  CellSet covered() const {
    CellSet all;
    for (size_t cell = 0; cell < cells_.size(); ++cell) {
      if (cells_[cell].state == kCovered) all.add(static_cast<int64_t>(cell));
    }
    return all;
  }

  SearchBudget& budget_;
  const std::function<bool(const CellSet&)>& found_;
  const CellSet& likely_;
  std::vector<Cell> cells_;
  std::vector<Region> regions_;
  std::vector<size_t> trail_, waiting_;
};

}  // namespace

void solve(const NumberGrid& regions, SearchBudget& budget, const std::function<bool(const CellSet&)>& found,
           const CellSet& likely) {
  Search(regions, budget, found, likely).run();
}

}  // namespace longhaul::puzzles::norinori
