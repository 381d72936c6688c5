#include <map>

#include "puzzles/second_checkers/checkers.h"

namespace longhaul::puzzles {

// Every arrow walks back to its number and is counted there; then the counts are compared.
bool plain_arrow_maze(const nlohmann::json& given, const std::string& text) {
  const std::map<std::string, std::pair<int, int>> steps = {{"↑", {-1, 0}}, {"↓", {1, 0}},   {"←", {0, -1}},
                                                            {"→", {0, 1}},  {"↖", {-1, -1}}, {"↗", {-1, 1}},
                                                            {"↙", {1, -1}}, {"↘", {1, 1}}};
  const auto rows = plain_rows(text);
  const auto& maze = given["maze"];
  if (rows.size() != maze.size()) return false;
  std::map<std::pair<size_t, size_t>, int> counts;
  for (size_t r = 0; r < rows.size(); ++r) {
    if (rows[r].size() != maze[r].size()) return false;
    for (size_t c = 0; c < rows[r].size(); ++c) {
      const std::string wanted = maze[r][c];
      if (wanted == "X" ? !steps.contains(rows[r][c]) : rows[r][c] != wanted) return false;
    }
  }
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t c = 0; c < rows[r].size(); ++c) {
      const auto step = steps.find(rows[r][c]);
      if (step == steps.end()) continue;
      size_t row = r, column = c;
      do {
        row -= static_cast<size_t>(step->second.first);
        column -= static_cast<size_t>(step->second.second);
        if (row >= rows.size() || column >= rows[row].size()) return false;
      } while (rows[row][column] == rows[r][c]);
      if (steps.contains(rows[row][column])) return false;
      ++counts[{row, column}];
    }
  }
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t c = 0; c < rows[r].size(); ++c) {
      if (!steps.contains(rows[r][c]) && rows[r][c] != std::to_string(counts[{r, c}])) return false;
    }
  }
  return true;
}

}  // namespace longhaul::puzzles
