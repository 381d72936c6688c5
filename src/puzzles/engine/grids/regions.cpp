#include "puzzles/engine/grids/regions.h"

#include <algorithm>

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

bool moved_to_a_neighbour(NumberGrid& regions, const Neighbours& near, int64_t cell, Draw& draw) {
  const int64_t own = regions.cells[static_cast<size_t>(cell)];
  CellSet rest;
  for (size_t other = 0; other < regions.cells.size(); ++other) {
    if (regions.cells[other] == own) rest.add(static_cast<int64_t>(other));
  }
  rest.remove(cell);
  if (rest.empty() || !near.is_connected(rest)) return false;
  std::vector<int64_t> others;
  near.beside(cell).for_each([&](int64_t beside) {
    const int64_t other = regions.cells[static_cast<size_t>(beside)];
    if (other != own && other != kBlank) others.push_back(other);
  });
  if (others.empty()) return false;
  regions.cells[static_cast<size_t>(cell)] = draw.pick(others);
  return true;
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

bool narrow_regions(NumberGrid& regions, const CellSet& solution, const Neighbours& near,
                    const SolveRegions& solve, Draw& draw) {
  constexpr int kMostChanges = 200;
  for (int change = 0; change < kMostChanges; ++change) {
    SearchBudget budget{.nodes = 5'000};
    const auto other = other_than(
        solution, budget, [&](SearchBudget& left, const auto& found) { solve(regions, left, found); });
    if (other.unique()) return true;
    if (!other.known) return false;
    std::vector<int64_t> ways = other.solution->without(solution).cells();
    draw.shuffle(ways);
    const bool changed = std::ranges::any_of(ways, [&](int64_t cell) {
      return regions.cells[static_cast<size_t>(cell)] != kBlank &&
             moved_to_a_neighbour(regions, near, cell, draw);
    });
    if (!changed) return false;
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
  std::string least;
  for (const NumberGrid& now : turned(regions)) {
    std::vector<int64_t> names;  // regions in the order in which they come
    std::string text;
    for (const int64_t region : now.cells) {
      const auto known = std::ranges::find(names, region);
      const auto name = known - names.begin();
      if (region != kBlank && known == names.end()) names.push_back(region);
      text += region == kBlank ? '.' : static_cast<char>('A' + name);
    }
    if (least.empty() || text < least) least = text;
  }
  return least;
}

}  // namespace longhaul::puzzles
