// Answers that are a grid of whole numbers in which the given numbers of a board stand unchanged.
#pragma once

#include <string_view>

#include "puzzles/engine/answers/verdict.h"
#include "puzzles/engine/grids/grid.h"

namespace longhaul::puzzles {

struct FilledBoard {
  // accepted: `grid` has the board's rows, columns and given numbers; the rules are the task's to judge
  Verdict verdict;
  NumberGrid grid;
};
FilledBoard read_filled(const NumberGrid& board, std::string_view payload);

}  // namespace longhaul::puzzles
