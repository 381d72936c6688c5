// Calcudoko: a Latin square cut into cages; the numbers of a cage are different and make its target with its
// sign. given: {"grid_size": 4, "regions": [{"cells": ["(1,1)", "(1,2)"], "target": 3, "operator": "+"}, …]},
// places counted from 1, operators + - * ÷. Source: docs/puzzles.md#calcudoko.
#pragma once

#include <functional>
#include <vector>

#include "puzzles/engine/grids/grid.h"
#include "puzzles/task.h"

namespace longhaul::puzzles::calcudoko {

inline constexpr int64_t kLargestSide = 8;

// difference and quotient: of two cells, the larger one first
enum class Sign : uint8_t { kSum, kDifference, kProduct, kQuotient };
std::string_view text_of(Sign sign);  // "÷"

struct Cage {
  std::vector<int64_t> cells;  // places, row by row
  int64_t target = 0;
  Sign sign = Sign::kSum;
};
struct Board {
  int64_t side = 0;
  std::vector<Cage> cages;
};
Board read_given(const nlohmann::json& given);  // kData

// What the numbers make; none: a difference or quotient of other than two numbers, or a quotient that is not
// whole.
std::optional<int64_t> made_of(Sign sign, const std::vector<int64_t>& numbers);

// Calls `found` for each solution until it returns false.
void solve(const Board& board, SearchBudget& budget, const std::function<bool(const NumberGrid&)>& found);

std::string prompt(const nlohmann::json& given, Language language, int64_t which);
extern const TaskEntry kTask;

}  // namespace longhaul::puzzles::calcudoko
