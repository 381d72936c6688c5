#include "second_checkers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

namespace longhaul::puzzles {
namespace {

std::vector<std::vector<std::string>> plain_rows(const std::string& text) {
  std::vector<std::vector<std::string>> rows;
  std::string cell;
  bool inside = false;
  for (const char c : text) {
    if (c == '[') {
      if (inside) return {};
      rows.emplace_back();
      inside = rows.size() > 1;  // the first bracket opens the list of rows
    } else if (c == ']' || c == ',') {
      if (inside) rows.back().push_back(std::exchange(cell, ""));
      if (c == ']') inside = false;
    } else if (c != ' ' && c != '"') {
      cell += c;
    }
  }
  if (!rows.empty()) rows.erase(rows.begin());
  return rows;
}

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
      for (const std::string& place : {fmt::format("r{}", r), fmt::format("c{}", c), fmt::format("b{}/{}", r / tall, c / wide)}) {
        if (!seen.insert(place + "=" + digit).second) return false;
      }
    }
  }
  return true;
}

// Latin squares: every row and column, sorted, is 1, 2, …
bool plain_latin(const std::vector<std::vector<std::string>>& rows, size_t side) {
  if (rows.size() != side) return false;
  for (size_t i = 0; i < side; ++i) {
    if (rows[i].size() != side) return false;
    std::vector<std::string> row = rows[i], column, wanted;
    for (size_t j = 0; j < side; ++j) {
      if (rows[j].size() != side) return false;
      column.push_back(rows[j][i]);
      wanted.push_back(std::to_string(j + 1));
    }
    std::ranges::sort(row);
    std::ranges::sort(column);
    if (row != wanted || column != wanted) return false;
  }
  return true;
}

bool plain_given(const nlohmann::json& board, const std::vector<std::vector<std::string>>& rows) {
  for (size_t r = 0; r < board.size(); ++r) {
    for (size_t c = 0; c < board[r].size(); ++c) {
      if (board[r][c].is_number() && board[r][c].dump() != rows[r][c]) return false;
    }
  }
  return true;
}

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
    const int top = counted([&](size_t j) { return rows[j][i]; }), bottom = counted([&](size_t j) { return rows[side - 1 - j][i]; });
    const int left = counted([&](size_t j) { return rows[i][j]; }), right = counted([&](size_t j) { return rows[i][side - 1 - j]; });
    for (const auto& [name, have] :
         {std::pair("top", top), std::pair("bottom", bottom), std::pair("left", left), std::pair("right", right)}) {
      if (given[name][i] != 0 && given[name][i] != have) return false;
    }
  }
  return true;
}

bool plain_kukurasu(const nlohmann::json& given, const std::string& text) {
  const auto rows = plain_rows(text);
  if (rows.size() != given["row_sums"].size()) return false;
  std::vector<int> columns(given["col_sums"].size());
  for (size_t r = 0; r < rows.size(); ++r) {
    if (rows[r].size() != columns.size()) return false;
    int row = 0;
    for (size_t c = 0; c < columns.size(); ++c) {
      if (rows[r][c] != "1" && rows[r][c] != "X") return false;
      if (rows[r][c] != "1") continue;
      row += static_cast<int>(c) + 1;
      columns[c] += static_cast<int>(r) + 1;
    }
    if (row != given["row_sums"][r].get<int>()) return false;
  }
  return columns == given["col_sums"].get<std::vector<int>>();
}

// Takes pairs that match out until nothing is left, as one may say what a Dyck word is.
bool plain_balanced(std::string text) {
  for (size_t before = text.size() + 1; text.size() < before;) {
    before = text.size();
    for (const char* pair : {"()", "[]", "{}", "<>"}) {
      for (size_t at = text.find(pair); at != std::string::npos; at = text.find(pair)) text.erase(at, 2);
    }
  }
  return text.empty();
}

// The answer follows from the prefix: no shorter text that begins so is balanced.
bool plain_dyck(const nlohmann::json& given, const std::string& text) {
  const std::string prefix = given["prefix"];
  const size_t open =
      static_cast<size_t>(std::ranges::count_if(prefix, [](char c) { return std::string_view("([{<").find(c) != std::string_view::npos; }));
  return text.starts_with(prefix) && plain_balanced(text) && text.size() == 2 * open;
}

// A prefix of a Dyck word is one that some closers make balanced; the first error ends the shortest prefix that is none.
bool plain_dyck_errors(const nlohmann::json& given, const std::string& text) {
  const std::string sequence = given["sequence"];
  const auto can_go_on = [](const std::string& begin) {
    std::string rest = begin;
    for (size_t before = rest.size() + 1; rest.size() < before;) {
      before = rest.size();
      for (const char* pair : {"()", "[]", "{}", "<>"}) {
        for (size_t at = rest.find(pair); at != std::string::npos; at = rest.find(pair)) rest.erase(at, 2);
      }
    }
    return rest.find_first_of(")]}>") == std::string::npos;
  };
  for (size_t n = 1; n <= sequence.size(); ++n) {
    if (!can_go_on(sequence.substr(0, n))) return text == std::to_string(n);
  }
  return text == (plain_balanced(sequence) ? "-1" : std::to_string(sequence.size() + 1));
}

// By shunting-yard in floating point: exact enough to tell whole targets below a thousand.
bool plain_mathador(const nlohmann::json& given, const std::string& text) {
  std::vector<double> values;
  std::string signs;
  std::vector<int> used;
  const auto rank = [](char c) { return c == '*' || c == '/' ? 2 : c == '+' || c == '-' ? 1 : 0; };
  const auto apply = [&] {
    if (values.size() < 2) return false;
    const double b = values.back(), a = values[values.size() - 2];
    values.resize(values.size() - 2);
    const char sign = signs.back();
    signs.pop_back();
    values.push_back(sign == '+' ? a + b : sign == '-' ? a - b : sign == '*' ? a * b : a / b);
    return true;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == ' ') continue;
    if (c >= '0' && c <= '9') {
      int number = 0;
      for (; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i) number = number * 10 + text[i] - '0';
      --i;
      values.push_back(number);
      used.push_back(number);
    } else if (c == '(') {
      signs += c;
    } else if (c == ')') {
      while (!signs.empty() && signs.back() != '(') {
        if (!apply()) return false;
      }
      if (signs.empty()) return false;
      signs.pop_back();
    } else if (rank(c) > 0) {
      while (!signs.empty() && rank(signs.back()) >= rank(c)) {
        if (!apply()) return false;
      }
      signs += c;
    } else {
      return false;
    }
  }
  while (!signs.empty()) {
    if (signs.back() == '(' || !apply()) return false;
  }
  auto numbers = given["numbers"].get<std::vector<int>>();
  std::ranges::sort(numbers);
  std::ranges::sort(used);
  return values.size() == 1 && numbers == used && std::abs(values[0] - given["result"].get<double>()) < 1e-9;
}

struct Row {
  std::string_view key;
  SecondChecker checker;
};
constexpr Row kCheckers[] = {{"sudoku", plain_sudoku},       {"kukurasu", plain_kukurasu},
                             {"futoshiki", plain_futoshiki}, {"skyscraper_puzzle", plain_skyscrapers},
                             {"dyck_language", plain_dyck},  {"dyck_language_errors", plain_dyck_errors},
                             {"mathador", plain_mathador}};

}  // namespace

SecondChecker second_checker_of(const TaskEntry& task) {
  const auto found = std::ranges::find(kCheckers, task.key, &Row::key);
  if (found != std::end(kCheckers)) return found->checker;
  ADD_FAILURE() << task.key << " has no second checker";
  return [](const nlohmann::json&, const std::string&) { return false; };
}

}  // namespace longhaul::puzzles
