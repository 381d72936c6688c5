// Norinori: dominoes that do not touch at a side cover two cells of each region; cells marked X belong to no
// region and are covered too. given: {"region_grid": [["A", "X", …], …]}. Source: docs/puzzles.md#norinori.
#pragma once

#include <functional>

#include "puzzles/engine/grids/cells.h"
#include "puzzles/engine/grids/grid.h"
#include "puzzles/task.h"

namespace longhaul::puzzles::norinori {

// Regions numbered from 0; kBlank: a cell of no region, which is covered. kData.
NumberGrid read_given(const nlohmann::json& given);

// Calls `found` with the covered cells of each solution until it returns false: dominoes that do not touch
// are told by their cells. `likely`: cells that are tried first, so that the
// solutions that are most like them come first.
void solve(const NumberGrid& regions, SearchBudget& budget, const std::function<bool(const CellSet&)>& found,
           const CellSet& likely = {});

std::string prompt(const nlohmann::json& given, Language language, int64_t which);
extern const TaskEntry kTask;

}  // namespace longhaul::puzzles::norinori
