// Skyscrapers: a Latin square of heights; numbers around it tell how many buildings are seen from there,
// higher ones hiding lower ones behind them. given: {"n": 4, "top": […], "bottom": […], "left": […], "right":
// […]}, 0 where nothing is told; "grid": [[1, "X", …], …] where heights are given. Source:
// docs/puzzles.md#skyscraper_puzzle.
#pragma once

#include <array>
#include <vector>

#include "puzzles/engine/grids/grid.h"
#include "puzzles/task.h"

namespace longhaul::puzzles::skyscraper_puzzle {

struct Board {
  NumberGrid grid;  // heights that are given
  // top, bottom (from left to right), left, right (from top to bottom)
  std::array<std::vector<int64_t>, 4> clues;
};
Board read_given(const nlohmann::json& given);  // kData

int64_t seen(const std::vector<int64_t>& heights);  // from in front of the first one

SolutionCount count_solutions(const Board& board, int64_t limit, SearchBudget& budget);

std::string prompt(const nlohmann::json& given, Language language, int64_t which);
extern const TaskEntry kTask;

}  // namespace longhaul::puzzles::skyscraper_puzzle
