#include <algorithm>

#include "puzzles/second_checkers/checkers.h"

namespace longhaul::puzzles {

bool plain_survo(const nlohmann::json& given, const std::string& text) {
  const auto rows = plain_rows(text);
  const auto& matrix = given["original_matrix"];
  const size_t side = given["n"];
  if (rows.size() != side) return false;
  std::vector<int> used, row_sums(side), column_sums(side);
  for (size_t r = 0; r < side; ++r) {
    if (rows[r].size() != side) return false;
    for (size_t c = 0; c < side; ++c) {
      if (rows[r][c].empty() || rows[r][c].size() > 4 ||
          rows[r][c].find_first_not_of("0123456789") != std::string::npos)
        return false;
      const int number = std::stoi(rows[r][c]);
      if (matrix[r][c] == 0) used.push_back(number);
      if (matrix[r][c] != 0 && matrix[r][c] != number) return false;
      row_sums[r] += c + 1 < side ? number : -number;
      column_sums[c] += r + 1 < side ? number : -number;
    }
  }
  auto wanted = given["candidate_numbers"].get<std::vector<int>>();
  std::ranges::sort(used);
  std::ranges::sort(wanted);
  return used == wanted && row_sums == std::vector<int>(side) && column_sums == std::vector<int>(side);
}

}  // namespace longhaul::puzzles
