#include "puzzles/engine/grids/regions.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/error.h"

namespace longhaul::puzzles {

bool grow_regions(NumberGrid& regions, const Neighbours& near, const CellSet& outside, Draw& draw) {
  CellSet taken;
  for (size_t cell = 0; cell < regions.cells.size(); ++cell) {
    if (regions.cells[cell] != kBlank) taken.add(static_cast<int64_t>(cell));
  }
  for (;;) {
    const CellSet open = near.all().without(taken).without(outside);
    std::vector<int64_t> edge = (open & near.beside_any(taken)).cells();
    if (edge.empty()) return open.empty();
    const int64_t cell = draw.pick(edge);
    std::vector<int64_t> from = (near.beside(cell) & taken).cells();
    regions.cells[static_cast<size_t>(cell)] = regions.cells[static_cast<size_t>(draw.pick(from))];
    taken.add(cell);
  }
}

std::vector<int64_t> regions_to_join(const NumberGrid& regions, const Neighbours& near, int64_t cell) {
  const int64_t own = regions.cells[static_cast<size_t>(cell)];
  std::vector<int64_t> others;
  near.beside(cell).for_each([&](int64_t beside) {
    const int64_t other = regions.cells[static_cast<size_t>(beside)];
    if (other != own && other != kBlank && std::ranges::find(others, other) == others.end())
      others.push_back(other);
  });
  if (others.empty()) return others;
  CellSet rest;
  for (size_t other = 0; other < regions.cells.size(); ++other) {
    if (regions.cells[other] == own) rest.add(static_cast<int64_t>(other));
  }
  rest.remove(cell);
  if (rest.empty() || !near.is_connected(rest)) others.clear();
  return others;
}

bool pair_regions(NumberGrid& regions, const Neighbours& near, Draw& draw) {
  const std::vector<CellSet> all = cells_of_regions(regions);
  std::vector<CellSet> beside(all.size());  // regions, as places
  for (size_t cell = 0; cell < regions.cells.size(); ++cell) {
    if (regions.cells[cell] == kBlank) continue;
    near.beside(static_cast<int64_t>(cell)).for_each([&](int64_t other) {
      const int64_t region = regions.cells[static_cast<size_t>(other)];
      if (region != kBlank && region != regions.cells[cell])
        beside[static_cast<size_t>(regions.cells[cell])].add(region);
    });
  }
  CellSet open;
  for (size_t region = 0; region < all.size(); ++region) open.add(static_cast<int64_t>(region));
  for (int64_t next = 0; !open.empty(); ++next) {  // those with the fewest ways first
    std::vector<int64_t> order = open.cells();
    draw.shuffle(order);
    const int64_t one = *std::ranges::min_element(
        order, {}, [&](int64_t region) { return (beside[static_cast<size_t>(region)] & open).count(); });
    std::vector<int64_t> ways = (beside[static_cast<size_t>(one)] & open).cells();
    if (ways.empty()) return false;
    const int64_t other = draw.pick(ways);
    open.remove(one);
    open.remove(other);
    (all[static_cast<size_t>(one)] | all[static_cast<size_t>(other)]).for_each([&](int64_t cell) {
      regions.cells[static_cast<size_t>(cell)] = next;
    });
  }
  return true;
}

namespace {

// Other solutions that were met, by their cells, and how many of them still are solutions.
class OtherSolutions {
 public:
  OtherSolutions(const NumberGrid& regions, const CellSet& solution, const Neighbours& near)
      : regions_(regions), solution_(solution), near_(near) {
    solution.for_each([&](int64_t cell) {
      if (regions.cells[static_cast<size_t>(cell)] == 0) ++each_;
    });
  }
  void add(const CellSet& other) { all_.push_back(other.cells()); }
  std::vector<int64_t> first_that_holds() const {  // empty: none does
    const auto found = std::ranges::find_if(all_, [&](const auto& cells) { return holds(cells); });
    return found == all_.end() ? std::vector<int64_t>() : *found;
  }

  struct Change {
    int64_t cell = -1, region = -1;  // -1: there is none
  };
  // That ends a solution and leaves the fewest others.
  Change best_change(const std::vector<int64_t>& other, NumberGrid& regions, Draw& draw) const {
    Change best;
    int64_t fewest = std::numeric_limits<int64_t>::max();
    std::vector<int64_t> order = other;
    draw.shuffle(order);
    for (const int64_t cell : order) {
      int64_t& own = regions.cells[static_cast<size_t>(cell)];
      if (solution_.has(cell) || own == kBlank) continue;
      for (const int64_t region : regions_to_join(regions, near_, cell)) {
        const int64_t before = std::exchange(own, region);
        const int64_t left = std::ranges::count_if(all_, [&](const auto& cells) { return holds(cells); });
        own = before;
        if (left < fewest) best = {cell, region}, fewest = left;
      }
    }
    return best;
  }

 private:
  bool holds(const std::vector<int64_t>& cells) const {
    std::array<int8_t, kMostCells> counts{};
    for (const int64_t cell : cells) {
      const int64_t region = regions_.cells[static_cast<size_t>(cell)];
      // as many cells as regions want in all: where none has too many, none has too few
      if (region != kBlank && ++counts[static_cast<size_t>(region)] > each_) return false;
    }
    return true;
  }

  const NumberGrid& regions_;
  const CellSet& solution_;
  const Neighbours& near_;
  int64_t each_ = 0;  // cells of a solution in a region
  std::vector<std::vector<int64_t>> all_;
};

}  // namespace

bool narrow_regions(NumberGrid& regions, const CellSet& solution, const Neighbours& near,
                    const SolveRegions& solve, Draw& draw) {
  constexpr int kAtOnce = 12;  // other solutions that a search looks for
  constexpr int kMostShaken =
      20;  // times that cells change their regions at random, because nothing else could
  const auto most_changes = static_cast<int64_t>(100 + 3 * regions.cells.size());
  OtherSolutions others(regions, solution, near);
  int shaken = 0;
  for (int64_t change = 0; change < most_changes; ++change) {
    std::vector<int64_t> other = others.first_that_holds();
    if (other.empty()) {
      SearchBudget budget{.nodes = 2'000};
      int found_now = 0;
      solve(regions, budget, [&](const CellSet& found) {
        if (found == solution) return true;
        others.add(found);
        return ++found_now < kAtOnce;
      });
      if (found_now == 0) return !budget.spent();
      other = others.first_that_holds();
    }
    const OtherSolutions::Change best = others.best_change(other, regions, draw);
    if (best.cell >= 0) {
      regions.cells[static_cast<size_t>(best.cell)] = best.region;
      continue;
    }
    if (++shaken > kMostShaken) return false;
    std::vector<int64_t> any = near.all().without(solution).cells();
    for (int tried = 0; tried < 40; ++tried) {
      const int64_t cell = draw.pick(any);
      if (regions.cells[static_cast<size_t>(cell)] == kBlank) continue;
      std::vector<int64_t> ways = regions_to_join(regions, near, cell);
      if (!ways.empty()) regions.cells[static_cast<size_t>(cell)] = draw.pick(ways);
    }
  }
  return false;
}

std::vector<CellSet> cells_of_regions(const NumberGrid& regions) {
  std::vector<CellSet> all(static_cast<size_t>(std::ranges::max(regions.cells) + 1));
  for (size_t cell = 0; cell < regions.cells.size(); ++cell) {
    if (regions.cells[cell] != kBlank)
      all[static_cast<size_t>(regions.cells[cell])].add(static_cast<int64_t>(cell));
  }
  return all;
}

LetterGrid region_letters(const NumberGrid& regions) {
  LetterGrid letters(regions.rows, regions.columns, 'X');
  for (size_t cell = 0; cell < regions.cells.size(); ++cell) {
    const int64_t region = regions.cells[cell];
    LONGHAUL_ASSERT(region < static_cast<int64_t>(kRegionLetters.size()), "region {} has no letter", region);
    if (region != kBlank) letters.cells[cell] = kRegionLetters[static_cast<size_t>(region)];
  }
  return letters;
}

NumberGrid regions_of(const LetterGrid& letters) {
  std::string known;
  for (const char letter : letters.cells) {
    if (letter != 'X' && known.find(letter) == std::string::npos) known += letter;
  }
  std::ranges::sort(known);
  NumberGrid regions(letters.rows, letters.columns, kBlank);
  for (size_t cell = 0; cell < letters.cells.size(); ++cell) {
    if (letters.cells[cell] != 'X')
      regions.cells[cell] = static_cast<int64_t>(known.find(letters.cells[cell]));
  }
  return regions;
}

std::string canonical_regions(const NumberGrid& regions) {
  return least_turned(regions.rows, regions.columns, true, [&] {
    return [&, names = std::array<char, kMostCells>{}, next = 'A'](size_t cell) mutable {
      if (regions.cells[cell] == kBlank) return '.';
      char& name = names[static_cast<size_t>(regions.cells[cell])];  // in the order in which they come
      if (name == 0) name = next++;
      return name;
    };
  });
}

}  // namespace longhaul::puzzles
