// Regions: a grid cut into pieces, each in one piece across sides. A region's number stands in its cells;
// kBlank: no region. Regions are written with letters, A, B, C, …, without X, which marks cells of no region.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "puzzles/engine/draw.h"
#include "puzzles/engine/grids/cells.h"
#include "puzzles/engine/grids/grid.h"
#include "puzzles/engine/grids/letters.h"
#include "puzzles/engine/search.h"

namespace longhaul::puzzles {

inline constexpr std::string_view kRegionLetters = "ABCDEFGHIJKLMNOPQRSTUVWYZ";

// Open cells (kBlank) but those of `outside` join a region beside them, in random order, while one can.
// False: one has none.
bool grow_regions(NumberGrid& regions, const Neighbours& near, const CellSet& outside, Draw& draw);

// The other regions beside a cell to which it may go over, each once: none, where its own would end or fall
// into pieces.
std::vector<int64_t> regions_to_join(const NumberGrid& regions, const Neighbours& near, int64_t cell);

// Each region joins one beside it, so that half as many are left. False: some found none.
bool pair_regions(NumberGrid& regions, const Neighbours& near, Draw& draw);

// Cells change regions until `solution` is the only solution, all regions having as many of its cells: each
// change takes a cell of another solution, and none of this one, out of its region, so that the other one is
// none any more. Of several changes the one is made after which the fewest of the others that were met so far
// are solutions; only when none of them is, a search looks for more. `solve` calls `found` for each solution
// until it returns false; what is a solution but for the counts of regions must not depend on these. False:
// it was not reached.
using SolveRegions =
    std::function<void(const NumberGrid&, SearchBudget&, const std::function<bool(const CellSet&)>&)>;
bool narrow_regions(NumberGrid& regions, const CellSet& solution, const Neighbours& near,
                    const SolveRegions& solve, Draw& draw);

std::vector<CellSet> cells_of_regions(const NumberGrid& regions);  // by number

LetterGrid region_letters(const NumberGrid& regions);  // X: no region
NumberGrid regions_of(const LetterGrid& letters);      // numbered in the order of the letters that occur

// The same for grids of regions that are one when they are turned or mirrored and their regions renamed.
std::string canonical_regions(const NumberGrid& regions);

}  // namespace longhaul::puzzles
