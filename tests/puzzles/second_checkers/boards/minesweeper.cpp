// Reads the board from the English prompt and asks of each hidden cell whether mines can be arranged without
// one there.
#include "puzzles/minesweeper/minesweeper.h"

#include <algorithm>
#include <set>
#include <sstream>

#include "puzzles/second_checkers/checkers.h"

namespace longhaul::puzzles {
namespace {

// The lines of a prompt that hold nothing but cells: numbers and X.
std::vector<std::vector<std::string>> board_in_prompt(const std::string& prompt) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(prompt);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.find_first_not_of("0123456789X ") != std::string::npos) continue;
    std::istringstream words(line);
    std::vector<std::string>& row = rows.emplace_back();
    for (std::string word; words >> word;) row.push_back(word);
  }
  return rows;
}

struct PlainMines {
  std::vector<std::vector<size_t>> hidden;  // of each number
  std::vector<int> wanted;

  // Fills `mine` (-1: open) so that all numbers are right; false: that cannot be.
  bool arrange(std::vector<int>& mine) const {
    size_t open_at = hidden.size();  // the first number that has open cells
    for (bool again = true; again;) {
      again = false;
      open_at = hidden.size();
      for (size_t i = 0; i < hidden.size(); ++i) {
        int have = 0, open = 0;
        for (const size_t cell : hidden[i]) have += mine[cell] == 1 ? 1 : 0, open += mine[cell] < 0 ? 1 : 0;
        if (have > wanted[i] || have + open < wanted[i]) return false;
        if (open == 0) continue;
        if (have == wanted[i] || have + open == wanted[i]) {
          for (const size_t cell : hidden[i])
            mine[cell] = mine[cell] >= 0 ? mine[cell] : have == wanted[i] ? 0 : 1;
          again = true;
        } else {
          open_at = std::min(open_at, i);
        }
      }
    }
    if (open_at == hidden.size()) return true;
    const size_t cell = *std::ranges::find_if(hidden[open_at], [&](size_t each) { return mine[each] < 0; });
    for (const int value : {1, 0}) {
      std::vector<int> tried = mine;
      tried[cell] = value;
      if (!arrange(tried)) continue;
      mine = tried;
      return true;
    }
    return false;
  }
};

}  // namespace

bool plain_minesweeper(const nlohmann::json& given, const std::string& text) {
  const auto rows = board_in_prompt(minesweeper::prompt(given, Language::kEnglish, 0));
  PlainMines board;
  std::set<size_t> asked, certain;
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t c = 0; c < rows[r].size(); ++c) {
      if (rows[r][c] == "X") continue;
      board.wanted.push_back(std::stoi(rows[r][c]));
      std::vector<size_t>& hidden = board.hidden.emplace_back();
      for (size_t row = r == 0 ? 0 : r - 1; row <= r + 1 && row < rows.size(); ++row) {
        for (size_t column = c == 0 ? 0 : c - 1; column <= c + 1 && column < rows[row].size(); ++column) {
          if (rows[row][column] == "X") hidden.push_back(row * rows[0].size() + column);
        }
      }
      asked.insert(hidden.begin(), hidden.end());
    }
  }
  while (!asked.empty()) {
    const size_t cell = *asked.begin();
    asked.erase(cell);
    // Numbers near the cell come first, so that what cannot be is seen there.
    const size_t columns = rows[0].size();
    std::vector<std::pair<size_t, size_t>> order;  // (distance, number)
    for (size_t i = 0; i < board.hidden.size(); ++i) {
      const auto far = [](size_t a, size_t b) { return a > b ? a - b : b - a; };
      const size_t other = board.hidden[i].empty() ? cell : board.hidden[i][0];
      order.emplace_back(std::max(far(other / columns, cell / columns), far(other % columns, cell % columns)),
                         i);
    }
    std::ranges::sort(order);
    PlainMines near;
    for (const auto& [distance, i] : order)
      near.hidden.push_back(board.hidden[i]), near.wanted.push_back(board.wanted[i]);
    std::vector<int> mine(rows.size() * rows[0].size(), -1);
    mine[cell] = 0;
    if (near.arrange(mine)) {
      std::erase_if(asked, [&](size_t other) { return mine[other] != 1; });
    } else {
      certain.insert(cell);
    }
  }
  // The answer: its numbers in turn are rows and columns.
  std::set<size_t> answered;
  std::vector<size_t> numbers;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] < '0' || text[i] > '9') continue;
    size_t number = 0;
    for (; i < text.size() && text[i] >= '0' && text[i] <= '9' && number < 1000; ++i)
      number = number * 10 + static_cast<size_t>(text[i] - '0');
    --i;
    numbers.push_back(number);
  }
  for (size_t i = 0; i + 1 < numbers.size(); i += 2) {
    if (numbers[i] >= rows.size() || numbers[i + 1] >= rows[0].size()) return false;
    answered.insert(numbers[i] * rows[0].size() + numbers[i + 1]);
  }
  return numbers.size() % 2 == 0 && answered == certain;
}

}  // namespace longhaul::puzzles
