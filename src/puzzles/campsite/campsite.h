// Campsite: a tent for each tree. given: {"grid": [["T", "X", …], …], "row_constraints": [1, …],
// "col_constraints": [0, …], "n": 4, "m": 5}: n rows, m columns, T a tree, X an empty cell. Source:
// docs/puzzles.md#campsite.
#pragma once

#include <functional>
#include <vector>

#include "puzzles/engine/grids/cells.h"
#include "puzzles/engine/grids/letters.h"
#include "puzzles/task.h"

namespace longhaul::puzzles::campsite {

struct Board {
  LetterGrid grid;
  std::vector<int64_t> rows, columns;  // tents
  CellSet trees() const;
};
Board read_given(const nlohmann::json& given);  // kData

// Whether each tree has a tent of its own beside it, and each tent a tree.
bool are_paired(const CellSet& trees, const CellSet& tents, const Neighbours& near);

// Calls `found` with the tents of each solution until it returns false.
void solve(const Board& board, SearchBudget& budget, const std::function<bool(const CellSet&)>& found);

std::string prompt(const nlohmann::json& given, Language language, int64_t which);
extern const TaskEntry kTask;

}  // namespace longhaul::puzzles::campsite
