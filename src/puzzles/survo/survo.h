// Survo: a matrix whose last column and last row hold the sums of the others; numbers that are taken out are
// to be put back. given: {"original_matrix": [[0, 5, 7], [3, 0, 9], [5, 11, 16]], "candidate_numbers": [2,
// 6], "n": 3}, 0 for a cell that is open. Source: docs/puzzles.md#survo.
#pragma once

#include <functional>
#include <vector>

#include "puzzles/engine/grids/grid.h"
#include "puzzles/task.h"

namespace longhaul::puzzles::survo {

struct Board {
  NumberGrid matrix;                // with its sums; open cells, none of them a sum, are kBlank
  std::vector<int64_t> candidates;  // sorted, one for each open cell
};
Board read_given(const nlohmann::json& given);  // kData

// Calls `found` for each solution until it returns false. Candidates that are equal count as one.
void solve(const Board& board, SearchBudget& budget, const std::function<bool(const NumberGrid&)>& found);

std::string prompt(const nlohmann::json& given, Language language, int64_t which);
extern const TaskEntry kTask;

}  // namespace longhaul::puzzles::survo
