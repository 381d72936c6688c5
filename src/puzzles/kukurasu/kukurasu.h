// Kukurasu: mark cells so that the marks of each row and column add up to its sum. A mark in column j adds j
// to its row, one in row i adds i to its column; both count from 1. given: {"row_sums": [4, 1], "col_sums":
// [1, 2, 1], "n": 2, "m": 3} with n rows and m columns. Source: docs/puzzles.md#kukurasu.
#pragma once

#include <vector>

#include "puzzles/engine/grids/grid.h"
#include "puzzles/task.h"

namespace longhaul::puzzles::kukurasu {

struct Sums {
  std::vector<int64_t> rows, columns;
};
Sums sums_of(const NumberGrid& marks);         // of a grid of 0 and 1
Sums read_given(const nlohmann::json& given);  // kData

SolutionCount count_solutions(const Sums& sums, int64_t limit, SearchBudget& budget);

std::string prompt(const nlohmann::json& given, Language language, int64_t which);
extern const TaskEntry kTask;

}  // namespace longhaul::puzzles::kukurasu
