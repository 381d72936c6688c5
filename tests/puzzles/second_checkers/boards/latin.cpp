#include "puzzles/second_checkers/checkers.h"

#include <algorithm>

namespace longhaul::puzzles {

bool plain_futoshiki(const nlohmann::json& given, const std::string& text) {
  const auto rows = plain_rows(text);
  if (!plain_latin(rows, given["grid_size"]) || !plain_given(given["grid"], rows)) return false;
  for (const auto& one : given["constraints"]) {
    const std::string a = rows[one[0][0].get<size_t>()][one[0][1].get<size_t>()],
                      b = rows[one[1][0].get<size_t>()][one[1][1].get<size_t>()];
    if (one[2] == ">" ? a <= b : a >= b) return false;
  }
  return true;
}

// A building is seen if nothing as high stands before it.
bool plain_skyscrapers(const nlohmann::json& given, const std::string& text) {
  const auto rows = plain_rows(text);
  const size_t side = given["n"];
  if (!plain_latin(rows, side) || (given.contains("grid") && !plain_given(given["grid"], rows))) return false;
  const auto counted = [&](const auto& height) {
    int count = 0;
    for (size_t i = 0; i < side; ++i) {
      bool hidden = false;
      for (size_t j = 0; j < i; ++j) hidden = hidden || height(j) > height(i);
      count += hidden ? 0 : 1;
    }
    return count;
  };
  for (size_t i = 0; i < side; ++i) {
    const int top = counted([&](size_t j) { return rows[j][i]; }),
              bottom = counted([&](size_t j) { return rows[side - 1 - j][i]; });
    const int left = counted([&](size_t j) { return rows[i][j]; }),
              right = counted([&](size_t j) { return rows[i][side - 1 - j]; });
    for (const auto& [name, have] : {std::pair("top", top), std::pair("bottom", bottom),
                                     std::pair("left", left), std::pair("right", right)}) {
      if (given[name][i] != 0 && given[name][i] != have) return false;
    }
  }
  return true;
}

}  // namespace longhaul::puzzles
