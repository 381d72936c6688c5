#include <functional>
#include <set>

#include "puzzles/second_checkers/checkers.h"

namespace longhaul::puzzles {

// Trees are paired one after the other with any tent beside them that is left.
bool plain_campsite(const nlohmann::json& given, const std::string& text) {
  const auto rows = plain_rows(text);
  const auto& grid = given["grid"];
  const int height = given["n"], width = given["m"];
  if (static_cast<int>(rows.size()) != height) return false;
  std::vector<std::pair<int, int>> trees;
  std::set<std::pair<int, int>> tents;
  for (int r = 0; r < height; ++r) {
    if (static_cast<int>(rows[static_cast<size_t>(r)].size()) != width) return false;
    for (int c = 0; c < width; ++c) {
      const std::string& cell = rows[static_cast<size_t>(r)][static_cast<size_t>(c)];
      if (cell != "T" && cell != "C" && cell != "X") return false;
      if ((cell == "T") != (grid[static_cast<size_t>(r)][static_cast<size_t>(c)] == "T")) return false;
      if (cell == "T") trees.emplace_back(r, c);
      if (cell == "C") tents.emplace(r, c);
    }
  }
  std::vector<int> in_rows(static_cast<size_t>(height)), in_columns(static_cast<size_t>(width));
  for (const auto& [r, c] : tents) {
    ++in_rows[static_cast<size_t>(r)];
    ++in_columns[static_cast<size_t>(c)];
    for (int i = 0; i < 9; ++i) {
      if (i != 4 && tents.contains({r + i / 3 - 1, c + i % 3 - 1})) return false;
    }
  }
  if (in_rows != given["row_constraints"].get<std::vector<int>>() ||
      in_columns != given["col_constraints"].get<std::vector<int>>())
    return false;
  if (trees.size() != tents.size()) return false;
  const std::function<bool(size_t)> pair = [&](size_t tree) {
    if (tree == trees.size()) return true;
    const auto [r, c] = trees[tree];
    for (const auto& tent :
         {std::pair(r + 1, c), std::pair(r - 1, c), std::pair(r, c + 1), std::pair(r, c - 1)}) {
      if (tents.erase(tent) == 0) continue;
      if (pair(tree + 1)) return true;
      tents.insert(tent);
    }
    return false;
  };
  return pair(0);
}

}  // namespace longhaul::puzzles
