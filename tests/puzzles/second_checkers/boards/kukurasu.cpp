#include "puzzles/second_checkers/checkers.h"

namespace longhaul::puzzles {

bool plain_kukurasu(const nlohmann::json& given, const std::string& text) {
  const auto rows = plain_rows(text);
  if (rows.size() != given["row_sums"].size()) return false;
  std::vector<int> columns(given["col_sums"].size());
  for (size_t r = 0; r < rows.size(); ++r) {
    if (rows[r].size() != columns.size()) return false;
    int row = 0;
    for (size_t c = 0; c < columns.size(); ++c) {
      // open cells may be 0, too
      if (rows[r][c] != "1" && rows[r][c] != "X" && rows[r][c] != "x" && rows[r][c] != "0") return false;
      if (rows[r][c] != "1") continue;
      row += static_cast<int>(c) + 1;
      columns[c] += static_cast<int>(r) + 1;
    }
    if (row != given["row_sums"][r].get<int>()) return false;
  }
  return columns == given["col_sums"].get<std::vector<int>>();
}

}  // namespace longhaul::puzzles
