#include <algorithm>

#include "puzzles/second_checkers/checkers.h"

namespace longhaul::puzzles {

bool plain_calcudoko(const nlohmann::json& given, const std::string& text) {
  const auto rows = plain_rows(text);
  if (!plain_latin(rows, given["grid_size"])) return false;
  for (const auto& region : given["regions"]) {
    std::vector<int> numbers;
    for (const std::string cell : region["cells"]) {
      const size_t comma = cell.find(',');
      const size_t row = std::stoul(cell.substr(1, comma - 1)), column = std::stoul(cell.substr(comma + 1));
      numbers.push_back(std::stoi(rows[row - 1][column - 1]));
    }
    std::ranges::sort(numbers, std::greater<>());
    if (std::ranges::adjacent_find(numbers) != numbers.end()) return false;
    int made = numbers[0];
    for (size_t i = 1; i < numbers.size(); ++i) {
      if (region["operator"] == "+") made += numbers[i];
      if (region["operator"] == "*") made *= numbers[i];
      if (region["operator"] == "-") made -= numbers[i];
      if (region["operator"] == "÷") {
        if (made % numbers[i] != 0) return false;
        made /= numbers[i];
      }
    }
    if (made != region["target"].get<int>()) return false;
  }
  return true;
}

}  // namespace longhaul::puzzles
