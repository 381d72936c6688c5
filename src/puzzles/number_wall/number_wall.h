// Number wall: walls part the grid into islands, one for each number and of so many cells. given: {"grid":
// [[3, "X", …], …], "n": 5}; in answers "A" is a wall and "X" a cell of an island. Source:
// docs/puzzles.md#number_wall.
#pragma once

#include <functional>

#include "puzzles/engine/grids/cells.h"
#include "puzzles/engine/grids/grid.h"
#include "puzzles/task.h"

namespace longhaul::puzzles::number_wall {

NumberGrid read_given(const nlohmann::json& given);  // kData

// Calls `found` with the cells of all islands of each solution until it returns false.
void solve(const NumberGrid& board, SearchBudget& budget, const std::function<bool(const CellSet&)>& found);

std::string prompt(const nlohmann::json& given, Language language, int64_t which);
extern const TaskEntry kTask;

}  // namespace longhaul::puzzles::number_wall
