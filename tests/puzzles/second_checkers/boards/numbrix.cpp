#include <cstdlib>
#include <map>

#include "puzzles/second_checkers/checkers.h"

namespace longhaul::puzzles {

bool plain_numbrix(const nlohmann::json& given, const std::string& text) {
  const auto rows = plain_rows(text);
  const size_t side = given["grid"].size();
  if (rows.size() != side) return false;
  std::map<std::string, std::pair<int, int>> places;
  for (size_t r = 0; r < side; ++r) {
    if (rows[r].size() != side) return false;
    for (size_t c = 0; c < side; ++c) places[rows[r][c]] = {static_cast<int>(r), static_cast<int>(c)};
  }
  if (!plain_given(given["grid"], rows)) return false;
  for (size_t number = 1; number <= side * side; ++number) {
    if (!places.contains(std::to_string(number))) return false;
    if (number == 1) continue;
    const auto [r, c] = places[std::to_string(number)];
    const auto [row, column] = places[std::to_string(number - 1)];
    if (std::abs(r - row) + std::abs(c - column) != 1) return false;
  }
  return true;
}

}  // namespace longhaul::puzzles
