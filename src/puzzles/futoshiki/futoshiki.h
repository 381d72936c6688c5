// Futoshiki: a Latin square with signs between neighbours, each of which says which of two numbers is larger.
// given: {"grid_size": 4, "grid": [[1, "X", …], …], "prefilled_coords": [[0, 0], …], "constraints": [[[0, 1],
// [0, 2], ">"], …]}, places counted from 0. The public verifier reads the given numbers from the question;
// ours from "grid". Source: docs/puzzles.md#futoshiki.
#pragma once

#include <vector>

#include "puzzles/engine/grids/grid.h"
#include "puzzles/task.h"

namespace longhaul::puzzles::futoshiki {

struct Sign {
  int64_t larger = 0, smaller = 0;  // cells, row by row
  bool operator==(const Sign&) const = default;
};

struct Board {
  NumberGrid grid;
  std::vector<Sign> signs;
};
Board read_given(const nlohmann::json& given);  // kData

SolutionCount count_solutions(const Board& board, int64_t limit, SearchBudget& budget);

std::string prompt(const nlohmann::json& given, Language language, int64_t which);
extern const TaskEntry kTask;

}  // namespace longhaul::puzzles::futoshiki
