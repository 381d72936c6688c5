#include "puzzles/second_checkers/checkers.h"

#include <set>

namespace longhaul::puzzles {

bool plain_sudoku(const nlohmann::json& given, const std::string& text) {
  const auto rows = plain_rows(text);
  const auto& board = given["original_sudoku"];
  const size_t side = board.size(), tall = side == 9 ? 3 : 2, wide = side / tall;
  if (rows.size() != side) return false;
  std::set<std::string> seen;
  for (size_t r = 0; r < side; ++r) {
    if (rows[r].size() != side) return false;
    for (size_t c = 0; c < side; ++c) {
      const std::string& digit = rows[r][c];
      if (digit.size() != 1 || digit[0] < '1' || digit[0] > static_cast<char>('0' + side)) return false;
      if (board[r][c].is_number() && board[r][c].dump() != digit) return false;
      for (const std::string& place :
           {fmt::format("r{}", r), fmt::format("c{}", c), fmt::format("b{}/{}", r / tall, c / wide)}) {
        if (!seen.insert(place + "=" + digit).second) return false;
      }
    }
  }
  return true;
}

}  // namespace longhaul::puzzles
