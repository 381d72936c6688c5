// Wordscapes: a crossword without clues. X cells take letters, 0 cells stay empty; the words that stand
// across and those that stand down are listed, and each is to be put into one of the runs of two or more X
// cells of its direction. given: {"grid": [["X", "0", …], …], "across_words": [...], "down_words": [...]}.
// Source: docs/puzzles.md#wordscapes.
#pragma once

#include <string>
#include <vector>

#include "puzzles/engine/grids/grid.h"
#include "puzzles/task.h"

namespace longhaul::puzzles::wordscapes {

struct Board {
  Grid<char> grid;  // 'X' or '0'
  std::vector<std::string> across, down;
};
// A run of two or more X cells, as places in the grid.
struct Slot {
  bool down = false;
  std::vector<size_t> cells;
};
std::vector<Slot> slots_of(const Grid<char>& grid);
Board read_given(const nlohmann::json& given);
SolutionCount count_solutions(const Board& board, int64_t limit, SearchBudget& budget);
std::string prompt(const nlohmann::json& given, Language language, int64_t which);

extern const TaskEntry kTask;

}  // namespace longhaul::puzzles::wordscapes
