// Arrow maze: numbers that count the arrows of their rays. given: {"maze": [["2", "→", "X"], …]}: numbers,
// arrows in eight directions, X for open cells. Source: docs/puzzles.md#arrow_maze.
#pragma once

#include <array>
#include <functional>
#include <string_view>

#include "puzzles/engine/grids/grid.h"
#include "puzzles/task.h"

namespace longhaul::puzzles::arrow_maze {

struct Arrow {
  std::string_view text;
  int64_t down = 0, right = 0;  // one step
};
inline constexpr std::array<Arrow, 8> kArrows = {{{"↑", -1, 0},
                                                  {"↓", 1, 0},
                                                  {"←", 0, -1},
                                                  {"→", 0, 1},
                                                  {"↖", -1, -1},
                                                  {"↗", -1, 1},
                                                  {"↙", 1, -1},
                                                  {"↘", 1, 1}}};

// Cells of a maze: numbers as they are, kBlank where it is open, and arrows as these.
inline constexpr int64_t arrow_cell(size_t which) { return -2 - static_cast<int64_t>(which); }
inline constexpr bool is_arrow(int64_t cell) { return cell <= -2; }
inline constexpr size_t arrow_of(int64_t cell) { return static_cast<size_t>(-2 - cell); }

NumberGrid read_given(const nlohmann::json& given);  // kData
std::string text_of(int64_t cell);                   // "12", "X", "↗"

// How many arrows stand in the rays of the number at that place.
int64_t counted_arrows(const NumberGrid& maze, int64_t row, int64_t column);

// Calls `found` for each solution until it returns false.
void solve(const NumberGrid& maze, SearchBudget& budget, const std::function<bool(const NumberGrid&)>& found);

std::string prompt(const nlohmann::json& given, Language language, int64_t which);
extern const TaskEntry kTask;

}  // namespace longhaul::puzzles::arrow_maze
