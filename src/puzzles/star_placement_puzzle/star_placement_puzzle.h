// Star placement: k stars in each row, column and region, none beside another one, not even at a corner.
// given: {"n": 5, "k": 1, "region_grid": [["A", "A", …], …]}, n regions. Source:
// docs/puzzles.md#star_placement_puzzle.
#pragma once

#include <functional>

#include "puzzles/engine/grids/cells.h"
#include "puzzles/engine/grids/grid.h"
#include "puzzles/engine/grids/letters.h"
#include "puzzles/task.h"

namespace longhaul::puzzles::star_placement_puzzle {

struct Board {
  int64_t stars = 0;   // in each row, column and region
  LetterGrid letters;  // of the regions, as they are given
  NumberGrid regions;  // numbered from 0; may be empty for boards without regions
};
Board read_given(const nlohmann::json& given);  // kData

// Calls `found` with the cells of the stars of each solution until it returns false. Without regions, rows
// and columns alone count. `likely`: cells that are tried first, so that the
// solutions that are most like them come first.
void solve(const Board& board, SearchBudget& budget, const std::function<bool(const CellSet&)>& found,
           const CellSet& likely = {});

// Stars in rows and columns of a grid of that side; every placement may come. None: the search for one took
// too long.
std::optional<CellSet> random_stars(int64_t side, int64_t stars, Draw& draw);

std::string prompt(const nlohmann::json& given, Language language, int64_t which);
extern const TaskEntry kTask;

}  // namespace longhaul::puzzles::star_placement_puzzle
