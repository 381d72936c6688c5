// Minesweeper: which hidden cells hold mines in every arrangement of mines that fits the revealed numbers;
// how many mines there are in all is not told. given: {"current_mines": [[0, 1], …], "grid": [[1, "X", …],
// …]}, places counted from 0; the public verifier reads the first alone. Source: docs/puzzles.md#minesweeper.
#pragma once

#include <optional>

#include "puzzles/engine/grids/cells.h"
#include "puzzles/engine/grids/grid.h"
#include "puzzles/task.h"

namespace longhaul::puzzles::minesweeper {

struct Board {
  NumberGrid grid;  // kBlank: hidden
  CellSet mines;    // the answer
};
Board read_given(const nlohmann::json& given);  // kData

// The mines that follow from one number alone: it has as many hidden neighbours as it counts.
CellSet single_mines(const NumberGrid& grid);

// The mines that follow from all numbers together; `mines` is one arrangement that fits. None: the budget was
// spent.
std::optional<CellSet> certain_mines(const NumberGrid& grid, const CellSet& mines, SearchBudget& budget);

std::string prompt(const nlohmann::json& given, Language language, int64_t which);
extern const TaskEntry kTask;

}  // namespace longhaul::puzzles::minesweeper
