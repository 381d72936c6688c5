// Numbrix: numbers from 1 to the count of cells, each beside the next one. given: {"grid": [[1, "X", …], …]},
// as many rows as columns. Source: docs/puzzles.md#numbrix.
#pragma once

#include <functional>

#include "puzzles/engine/grids/grid.h"
#include "puzzles/task.h"

namespace longhaul::puzzles::numbrix {

NumberGrid read_given(const nlohmann::json& given);  // kData

// Calls `found` for each solution until it returns false.
void solve(const NumberGrid& board, SearchBudget& budget,
           const std::function<bool(const NumberGrid&)>& found);

// A grid that is full and right: from a snake through all rows, by ends that bite into the path, so that any
// path may come.
NumberGrid random_full_grid(int64_t side, Draw& draw);

std::string prompt(const nlohmann::json& given, Language language, int64_t which);
extern const TaskEntry kTask;

}  // namespace longhaul::puzzles::numbrix
