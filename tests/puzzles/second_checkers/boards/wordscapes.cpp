#include <algorithm>
#include <set>

#include "puzzles/second_checkers/checkers.h"

namespace longhaul::puzzles {

// Rows and columns as texts with blanks for empty cells, cut at the blanks.
bool plain_wordscapes(const nlohmann::json& given, const std::string& text) {
  const nlohmann::json& grid = given["grid"];
  const auto rows = plain_rows(text);
  if (rows.size() != grid.size()) return false;
  std::vector<std::string> lines[2] = {{}, std::vector<std::string>(grid[0].size())};
  for (size_t r = 0; r < grid.size(); ++r) {
    if (rows[r].size() != grid[r].size()) return false;
    lines[0].emplace_back();
    for (size_t c = 0; c < grid[r].size(); ++c) {
      const std::string& cell = rows[r][c];
      if (grid[r][c] == "X" ? cell.size() != 1 : !cell.empty() && cell != "0") return false;
      const char letter = grid[r][c] == "X" ? cell[0] : ' ';
      lines[0].back() += letter;
      lines[1][c] += letter;
    }
  }
  for (const size_t way : {size_t{0}, size_t{1}}) {
    std::multiset<std::string> words, wanted;
    for (const std::string& line : lines[way]) {
      for (const std::string& word : plain_words(line + " ", ' ')) {
        if (word.size() > 1) words.insert(word);
      }
    }
    for (const std::string word : given[way == 0 ? "across_words" : "down_words"]) wanted.insert(word);
    if (words != wanted) return false;
  }
  return true;
}

}  // namespace longhaul::puzzles
