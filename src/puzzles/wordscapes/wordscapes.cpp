#include "puzzles/wordscapes/wordscapes.h"

#include <algorithm>
#include <array>

#include "puzzles/engine/answers/answer.h"
#include "puzzles/engine/answers/literal.h"
#include "puzzles/engine/given.h"
#include "puzzles/engine/words/dictionary.h"

namespace longhaul::puzzles::wordscapes {
namespace {

constexpr int64_t kLargestSide = 20;
constexpr Knob kKnobs[] = {{"side", 4, kLargestSide, 5, 15, "rows and columns"},
                           {"words", 3, 30, 5, 16, "words that stand across and down, together"},
                           {"crossings", 2, 60, 3, 20, "cells at least that belong to two words"}};

// Words by length and by the letter at one place, so that those which may cross a letter are found at once.
const std::vector<std::string_view>& words_with(size_t length, size_t place, char letter) {
  static const auto table = [] {
    std::array<std::array<std::array<std::vector<std::string_view>, 26>, 12>, 13> all;
    for (const std::string_view word : dictionary()) {
      for (size_t i = 0; i < word.size(); ++i)
        all[word.size()][i][static_cast<size_t>(word[i] - 'a')].push_back(word);
    }
    return all;
  }();
  return table[length][place][static_cast<size_t>(letter - 'a')];
}

// A crossword that grows: each word crosses letters that stand there, and touches no other word.
class Growing {
 public:
  Growing(int64_t side, Draw& draw) : draw_(draw), grid_(side, side, 0) {}

  bool grow(int64_t words, int64_t crossings) {
    place_first();
    if (placed() == 0) return false;  // the dictionary has no such word
    for (int64_t i = 0; i < 30 * words && placed() < words; ++i) {
      // Once there are some words, crossings that a word a time would not bring come from words that cross
      // several others.
      const int64_t missing = crossings - crossings_, left = words - placed();
      try_one(missing > left && 2 * placed() >= words ? 2 : 1);
    }
    return placed() == words && crossings_ >= crossings;
  }

  const Grid<char>& grid() const { return grid_; }
  Board board() const {
    Board board{Grid<char>(grid_.rows, grid_.columns, '0'), words_[0], words_[1]};
    for (size_t cell = 0; cell < grid_.cells.size(); ++cell) {
      if (grid_.cells[cell] != 0) board.grid.cells[cell] = 'X';
    }
    for (std::vector<std::string>* words : {&board.across, &board.down}) std::ranges::sort(*words);
    return board;
  }

 private:
  int64_t placed() const { return static_cast<int64_t>(words_[0].size() + words_[1].size()); }
  char at(int64_t row, int64_t column) const {
    return grid_.holds(row, column) ? grid_.at(row, column) : '\0';
  }

  void place_first() {
    const auto side = grid_.rows;
    const int64_t length = draw_.between(3, std::min<int64_t>(side, 12)), line = draw_.between(0, side - 1);
    const int64_t begin = draw_.between(0, side - length);
    const auto& words = words_with(static_cast<size_t>(length), 0,
                                   static_cast<char>('a' + static_cast<char>(draw_.below(20))));
    if (!words.empty()) put(words[draw_.below(words.size())], false, line, begin);
  }

  // How many letters a word of that length would cross at a place; 0: it has no room there, or would touch
  // others.
  int64_t crossed(int64_t length, bool down, int64_t row, int64_t column) const {
    const int64_t dr = down ? 1 : 0, dc = down ? 0 : 1;
    if (row < 0 || column < 0 || !grid_.holds(row + dr * (length - 1), column + dc * (length - 1))) return 0;
    if (at(row - dr, column - dc) != 0 || at(row + dr * length, column + dc * length) != 0) return 0;
    int64_t count = 0;
    for (int64_t i = 0; i < length; ++i) {
      const int64_t r = row + dr * i, c = column + dc * i;
      const bool there = grid_.at(r, c) != 0;
      if (!there && (at(r + dc, c + dr) != 0 || at(r - dc, c - dr) != 0)) return 0;
      count += there ? 1 : 0;
    }
    return count < length ? count : 0;
  }

  bool agrees(std::string_view word, bool down, int64_t row, int64_t column) const {
    for (size_t i = 0; i < word.size(); ++i) {
      const auto step = static_cast<int64_t>(i);
      const char there = grid_.at(row + (down ? step : 0), column + (down ? 0 : step));
      if (there != 0 && there != word[i]) return false;
    }
    return !known(word);
  }

  // A word through a letter that stands there already, across the word that it belongs to.
  void try_one(int64_t least_crossed) {
    size_t cell = draw_.below(grid_.cells.size());
    while (grid_.cells[cell] == 0) cell = (cell + 1) % grid_.cells.size();
    const int64_t row = static_cast<int64_t>(cell) / grid_.columns,
                  column = static_cast<int64_t>(cell) % grid_.columns;
    const bool down = at(row, column - 1) != 0 || at(row, column + 1) != 0;
    for (int attempt = 0; attempt < 20; ++attempt) {
      const int64_t length = draw_.between(3, std::min<int64_t>(grid_.rows, 9)),
                    place = draw_.between(0, length - 1);
      const int64_t r = down ? row - place : row, c = down ? column : column - place;
      if (crossed(length, down, r, c) < least_crossed) continue;
      const auto& words =
          words_with(static_cast<size_t>(length), static_cast<size_t>(place), grid_.cells[cell]);
      if (words.empty()) continue;
      const size_t first = draw_.below(words.size());
      for (size_t i = 0; i < words.size(); ++i) {
        const std::string_view word = words[(first + i) % words.size()];
        if (!agrees(word, down, r, c)) continue;
        put(word, down, r, c);
        return;
      }
    }
  }

  bool known(std::string_view word) const {
    return std::ranges::find(words_[0], word) != words_[0].end() ||
           std::ranges::find(words_[1], word) != words_[1].end();
  }

  void put(std::string_view word, bool down, int64_t row, int64_t column) {
    for (size_t i = 0; i < word.size(); ++i) {
      const auto step = static_cast<int64_t>(i);
      char& cell = grid_.at(row + (down ? step : 0), column + (down ? 0 : step));
      crossings_ += cell != 0 ? 1 : 0;
      cell = word[i];
    }
    words_[down ? 1 : 0].emplace_back(word);
  }

  Draw& draw_;
  Grid<char> grid_;  // 0: empty
  std::vector<std::string> words_[2];
  int64_t crossings_ = 0;
};

nlohmann::json given_of(const Board& board) {
  nlohmann::json grid = nlohmann::json::array();
  for (int64_t r = 0; r < board.grid.rows; ++r) {
    nlohmann::json& row = grid.emplace_back(nlohmann::json::array());
    for (int64_t c = 0; c < board.grid.columns; ++c) row.push_back(std::string(1, board.grid.at(r, c)));
  }
  return {{"grid", grid}, {"across_words", board.across}, {"down_words", board.down}};
}

std::string payload_of_grid(const Grid<char>& grid) {
  std::string text = "[";
  for (int64_t r = 0; r < grid.rows; ++r) {
    text += r == 0 ? "[" : ", [";
    for (int64_t c = 0; c < grid.columns; ++c) {
      const char letter = grid.at(r, c) == 0 ? ' ' : grid.at(r, c);
      text += fmt::format("{}\"{}\"", c == 0 ? "" : ", ", letter);
    }
    text += "]";
  }
  return text + "]";
}

std::optional<Puzzle> generate(const KnobValues& knobs, Draw& draw) {
  Growing growing(knobs["side"], draw);
  if (!growing.grow(knobs["words"], knobs["crossings"])) return std::nullopt;
  const Board board = growing.board();
  SearchBudget budget{.nodes = 20'000};
  if (board.across.empty() || board.down.empty() || !count_solutions(board, 2, budget).unique())
    return std::nullopt;
  return Puzzle{.given = given_of(board), .solution = payload_of_grid(growing.grid())};
}

// Letters in lower case, and 0 for an empty cell.
std::optional<char> answered_cell(std::string_view text) {
  if (text.empty() || text == "0") return '\0';
  if (text.size() > 1) return std::nullopt;
  const char letter = static_cast<char>(text[0] >= 'A' && text[0] <= 'Z' ? text[0] - 'A' + 'a' : text[0]);
  return letter >= 'a' && letter <= 'z' ? std::optional(letter) : std::nullopt;
}

Verdict verify(const nlohmann::json& given, std::string_view payload) {
  const Board board = read_given(given);
  const auto rows = read_grid(payload);
  if (!rows) return {VerdictCode::kUnreadable, "no list of rows of cells"};
  const auto width = static_cast<size_t>(board.grid.columns);
  if (rows->size() != static_cast<size_t>(board.grid.rows) || !rows->are_all_as_long_as(width))
    return {VerdictCode::kShape, fmt::format("not {} rows of {} cells", board.grid.rows, board.grid.columns)};
  std::vector<char> letters;
  for (size_t r = 0; r < rows->size(); ++r) {
    for (size_t c = 0; c < width; ++c) {
      const std::optional<char> letter = answered_cell((*rows)[r][c]);
      const bool open = board.grid.at(static_cast<int64_t>(r), static_cast<int64_t>(c)) == 'X';
      if (!letter)
        return {VerdictCode::kUnreadable, fmt::format("row {}, column {} is no letter", r + 1, c + 1)};
      if (open != (*letter != '\0'))
        return {VerdictCode::kGivenChanged,
                fmt::format("row {}, column {} must {}", r + 1, c + 1, open ? "hold a letter" : "be empty")};
      letters.push_back(*letter);
    }
  }
  std::vector<std::string> unused[2] = {board.across, board.down};
  for (const Slot& slot : slots_of(board.grid)) {
    std::string word;
    for (const size_t cell : slot.cells) word += letters[cell];
    std::vector<std::string>& words = unused[slot.down ? 1 : 0];
    const auto listed = std::ranges::find(words, word);
    if (listed == words.end())
      return {VerdictCode::kRuleBroken,
              fmt::format("'{}' is no word that is left to stand {}", word, slot.down ? "down" : "across")};
    words.erase(listed);
  }
  if (!unused[0].empty() || !unused[1].empty()) return {VerdictCode::kRuleBroken, "a word is missing"};
  return {};
}

SolutionCount count_of_given(const nlohmann::json& given, int64_t limit, SearchBudget& budget) {
  return count_solutions(read_given(given), limit, budget);
}

// The board and its mirror image at the diagonal, where across and down change places, are one puzzle; words
// come in any order.
std::string canonical(const nlohmann::json& given) {
  const Board board = read_given(given);
  Board other{Grid<char>(board.grid.columns, board.grid.rows), board.down, board.across};
  for (int64_t r = 0; r < board.grid.rows; ++r) {
    for (int64_t c = 0; c < board.grid.columns; ++c) other.grid.at(c, r) = board.grid.at(r, c);
  }
  const auto text_of = [](Board one) {
    std::ranges::sort(one.across);
    std::ranges::sort(one.down);
    return fmt::format("{} {} {} {}", one.grid.columns,
                       std::string(one.grid.cells.begin(), one.grid.cells.end()), fmt::join(one.across, ","),
                       fmt::join(one.down, ","));
  };
  return std::min(text_of(board), text_of(other));
}

std::vector<std::string> listed_words(const nlohmann::json& given, const char* key) {
  const nlohmann::json& list = list_of(member_of(given, key, kTask.key), 0, 200, key, kTask.key);
  std::vector<std::string> words;
  for (const nlohmann::json& each : list) {
    std::string word = text_of(each, key, kTask.key);
    for (char& c : word) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    if (word.size() < 2 || word.size() > 40 ||
        !std::ranges::all_of(word, [](char c) { return c >= 'a' && c <= 'z'; }))
      refuse_given(kTask.key, fmt::format("\"{}\": words of two letters or more", key), each);
    words.push_back(std::move(word));
  }
  return words;
}

}  // namespace

Board read_given(const nlohmann::json& given) {
  Board board{.across = listed_words(given, "across_words"), .down = listed_words(given, "down_words")};
  const nlohmann::json& rows =
      list_of(member_of(given, "grid", kTask.key), 1, kLargestSide, "\"grid\"", kTask.key);
  const size_t width = rows[0].is_array() ? rows[0].size() : 0;
  board.grid = Grid<char>(static_cast<int64_t>(rows.size()), static_cast<int64_t>(width));
  for (size_t r = 0; r < rows.size(); ++r) {
    const nlohmann::json& row = list_of(rows[r], 1, kLargestSide, "a row of \"grid\"", kTask.key);
    if (row.size() != width) refuse_given(kTask.key, "rows of \"grid\" of one length", row);
    for (size_t c = 0; c < width; ++c) {
      if (row[c] != "X" && row[c] != "0" && row[c] != 0)
        refuse_given(kTask.key, "\"X\" and \"0\" in \"grid\"", row);
      board.grid.cells[r * width + c] = row[c] == "X" ? 'X' : '0';
    }
  }
  return board;
}

const TaskEntry kTask = {.key = "wordscapes",
                         .title = "Wordscapes: a crossword whose words are listed",
                         .version = 3,
                         .knobs = kKnobs,
                         .generate = generate,
                         .prompt = prompt,
                         .verify = verify,
                         .count_solutions = count_of_given,
                         .canonical = canonical};

}  // namespace longhaul::puzzles::wordscapes
