// Sudoku: fill a grid so that each row, each column and each box holds every digit once. Sides of 4 (boxes of
// 2 x 2), 6 (2 rows x 3 columns) and 9 (3 x 3). given: {"original_sudoku": [[5, "X", …], …]}. Source:
// docs/puzzles.md#sudoku.
#pragma once

#include "puzzles/engine/grids/grid.h"
#include "puzzles/task.h"

namespace longhaul::puzzles::sudoku {

struct Boxes {
  int64_t rows = 0, columns = 0;  // of one box; 0: there is no sudoku of that side
};
Boxes boxes_of(int64_t side);

SolutionCount count_solutions(const NumberGrid& board, int64_t limit, SearchBudget& budget);
// A grid that is full and right; every one may come, some more often than others.
NumberGrid random_full_grid(int64_t side, Draw& draw);
NumberGrid board_of(const nlohmann::json& given);  // kData
std::string prompt(const nlohmann::json& given, Language language, int64_t which);

extern const TaskEntry kTask;

}  // namespace longhaul::puzzles::sudoku
