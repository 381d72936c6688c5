#include "puzzles/second_checkers/checkers.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "puzzles/tasks.h"

namespace longhaul::puzzles {

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

std::vector<std::string> plain_words(const std::string& text, char separator) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (c == separator) {
      words.emplace_back();
    } else if (c != ' ' || !words.back().empty()) {
      words.back() += c;
    }
  }
  for (std::string& word : words) {
    while (word.ends_with(' ')) word.pop_back();
  }
  return words;
}

// Of the templates, one that depends on the puzzle, so that all are read in time.
std::vector<std::string> plain_prompt_lines(const std::string& key, const nlohmann::json& given) {
  const auto which = static_cast<int64_t>(std::hash<std::string>{}(given.dump()) % kTemplates);
  return plain_words(task_named(key).prompt(given, Language::kEnglish, which), '\n');
}

}  // namespace longhaul::puzzles
