#include <set>

#include "puzzles/second_checkers/checkers.h"

namespace longhaul::puzzles {

// Islands are painted one after the other; then every square of four cells is looked at by itself, as the
// rules tell it.
bool plain_number_wall(const nlohmann::json& given, const std::string& text) {
  const auto rows = plain_rows(text);
  const auto& grid = given["grid"];
  const size_t side = grid.size(), width = grid[0].size();
  if (rows.size() != side) return false;
  for (size_t r = 0; r < side; ++r) {
    if (rows[r].size() != width) return false;
    for (size_t c = 0; c < width; ++c) {
      if (grid[r][c].is_number() ? rows[r][c] != grid[r][c].dump() : rows[r][c] != "A" && rows[r][c] != "X")
        return false;
    }
  }
  std::vector<std::vector<int>> island(side, std::vector<int>(width, 0));
  int count = 0;
  for (size_t r = 0; r < side; ++r) {
    for (size_t c = 0; c < width; ++c) {
      if (rows[r][c] == "A" || island[r][c] != 0) continue;
      ++count;
      std::vector<std::pair<size_t, size_t>> waiting = {{r, c}};
      std::vector<std::string> numbers;
      size_t size = 0;
      while (!waiting.empty()) {
        const auto [row, column] = waiting.back();
        waiting.pop_back();
        if (row >= side || column >= width || rows[row][column] == "A" || island[row][column] != 0) continue;
        island[row][column] = count;
        ++size;
        if (rows[row][column] != "X") numbers.push_back(rows[row][column]);
        for (const auto& next : {std::pair(row + 1, column), std::pair(row - 1, column),
                                 std::pair(row, column + 1), std::pair(row, column - 1)})
          waiting.push_back(next);
      }
      if (numbers != std::vector<std::string>{std::to_string(size)}) return false;
    }
  }
  for (size_t r = 0; r + 1 < side; ++r) {
    for (size_t c = 0; c + 1 < width; ++c) {
      std::multiset<int> square = {island[r][c], island[r][c + 1], island[r + 1][c], island[r + 1][c + 1]};
      if (square.count(0) == 4) return false;
      square.erase(0);
      // two islands that face each other over two walls
      if (std::set<int>(square.begin(), square.end()).size() > 1) return false;
    }
  }
  return true;
}

}  // namespace longhaul::puzzles
