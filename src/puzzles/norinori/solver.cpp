#include <vector>

#include "puzzles/engine/grids/regions.h"
#include "puzzles/norinori/norinori.h"

namespace longhaul::puzzles::norinori {
namespace {

// Cells are covered, open, or neither. A covered cell has one covered neighbour; a region has two covered
// cells.
class Search {
 public:
  Search(const NumberGrid& regions, SearchBudget& budget, const std::function<bool(const CellSet&)>& found)
      : near_(regions.rows, regions.columns),
        budget_(budget),
        found_(found),
        regions_(cells_of_regions(regions)) {
    for (size_t cell = 0; cell < regions.cells.size(); ++cell) {
      if (regions.cells[cell] == kBlank) marked_.add(static_cast<int64_t>(cell));
    }
  }

  void run() { step(marked_, near_.all().without(marked_)); }

 private:
  // False: there is no solution. `halves`: covered cells that have no covered neighbour yet.
  bool narrowed_by_dominoes(CellSet& covered, CellSet& open, CellSet& halves) const {
    halves = CellSet();
    for (const int64_t cell : covered.cells()) {
      const CellSet partners = near_.beside(cell) & covered, ways = near_.beside(cell) & open;
      if (partners.count() > 1) return false;
      if (partners.count() == 1) {
        open = open.without(near_.beside(cell));
      } else if (ways.empty()) {
        return false;
      } else if (ways.count() == 1) {
        covered |= ways;
        open = open.without(ways);
      } else {
        halves.add(cell);
      }
    }
    open &= near_.beside_any(open | halves);
    return true;
  }

  bool narrowed_by_regions(CellSet& covered, CellSet& open) const {
    for (const CellSet& region : regions_) {
      const int64_t have = (region & covered).count(), may = (region & open).count();
      if (have > 2 || have + may < 2) return false;
      if (have + may == 2) covered |= region & open;
      if (have == 2 || have + may == 2) open = open.without(region);
    }
    return true;
  }

  bool step(CellSet covered, CellSet open) {
    if (!budget_.spend()) return false;
    CellSet halves;
    for (CellSet covered_before, open_before; covered_before != covered || open_before != open;) {
      covered_before = covered, open_before = open;
      if (!narrowed_by_dominoes(covered, open, halves) || !narrowed_by_regions(covered, open)) return true;
    }
    // The half domino, or else the region, with the fewest ways.
    CellSet ways;
    for (const int64_t cell : halves.cells()) {
      const CellSet own = near_.beside(cell) & open;
      if (ways.empty() || own.count() < ways.count()) ways = own;
    }
    for (size_t i = 0; i < regions_.size() && halves.empty(); ++i) {
      const CellSet own = regions_[i] & open;
      if (!own.empty() && (ways.empty() || own.count() < ways.count())) ways = own;
    }
    const int64_t cell = ways.first();
    if (cell < 0) return found_(covered);
    CellSet with = covered;
    with.add(cell);
    open.remove(cell);
    return step(with, open) && step(covered, open);
  }

  Neighbours near_;
  SearchBudget& budget_;
  const std::function<bool(const CellSet&)>& found_;
  std::vector<CellSet> regions_;
  CellSet marked_;
};

}  // namespace

void solve(const NumberGrid& regions, SearchBudget& budget,
           const std::function<bool(const CellSet&)>& found) {
  Search(regions, budget, found).run();
}

}  // namespace longhaul::puzzles::norinori
