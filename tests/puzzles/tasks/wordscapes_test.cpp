// Wordscapes: fillings counted by trying all orders of the words; and what the public verifier accepts
// although it is wrong.
#include "puzzles/wordscapes/wordscapes.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "puzzles/maker.h"
#include "puzzles/second_checkers/checkers.h"

namespace longhaul::puzzles::wordscapes {
namespace {

nlohmann::json board_of(const std::vector<std::string>& rows, std::vector<std::string> across,
                        std::vector<std::string> down) {
  nlohmann::json grid;
  for (const std::string& row : rows) {
    grid.emplace_back();
    for (const char c : row) grid.back().push_back(std::string(1, c));
  }
  return {{"grid", grid}, {"across_words", across}, {"down_words", down}};
}

// Every way to hand the words out to the slots, in the order in which slots_of() names these.
int64_t plain_count(const nlohmann::json& given) {
  Board board = read_given(given);
  const std::vector<Slot> slots = slots_of(board.grid);
  std::vector<std::vector<char>> all;
  std::ranges::sort(board.across);
  do {
    std::ranges::sort(board.down);
    do {
      size_t next[2] = {0, 0};
      std::vector<char> cells(board.grid.cells.size(), 0);
      bool fits = true;
      for (const Slot& slot : slots) {
        const std::vector<std::string>& words = slot.down ? board.down : board.across;
        const size_t word = next[slot.down ? 1 : 0]++;
        fits = fits && word < words.size() && words[word].size() == slot.cells.size();
        for (size_t i = 0; fits && i < slot.cells.size(); ++i) {
          char& cell = cells[slot.cells[i]];
          fits = cell == 0 || cell == words[word][i];
          cell = words[word][i];
        }
      }
      fits = fits && next[0] == board.across.size() && next[1] == board.down.size();
      if (fits && std::ranges::find(all, cells) == all.end()) all.push_back(cells);
    } while (std::ranges::next_permutation(board.down).found);
  } while (std::ranges::next_permutation(board.across).found);
  return static_cast<int64_t>(all.size());
}

int64_t counted(const nlohmann::json& given) {
  SearchBudget budget;
  const SolutionCount count = count_solutions(read_given(given), 10000, budget);
  EXPECT_TRUE(count.known);
  return count.found;
}

TEST(Wordscapes, FillingsAreCountedAsByTryingAll) {
  const std::vector<nlohmann::json> boards = {
      board_of({"XXX", "X0X", "XXX"}, {"aba", "aca"}, {"ada", "aea"}),  // four ways
      board_of({"XXX", "X0X", "XXX"}, {"cat", "tea"}, {"cat", "tea"}),  // none
      board_of({"XXX", "X0X", "XXX"}, {"cat", "tot"}, {"cut", "tat"}),  // one
      board_of({"XXX", "000", "XXX"}, {"cat", "dog"}, {}),              // two
      board_of({"XXX", "000", "XXX"}, {"cat", "cat"}, {}),              // one: both are the same word
      board_of({"XXX", "000", "XXX"}, {"cat"}, {}),                     // none: a slot stays open
      board_of({"XXX", "000", "000"}, {"cat"}, {"cat"}),                // none: a word has no slot
      board_of({"XX0", "0XX", "00X"}, {"ab", "cd"}, {"bc", "de"}),      // one
  };
  for (const nlohmann::json& board : boards) EXPECT_EQ(counted(board), plain_count(board)) << board.dump();
  EXPECT_EQ(counted(boards[0]), 4);
  EXPECT_EQ(counted(boards[2]), 1);
  for (int64_t index = 0; index < 20; ++index) {
    nlohmann::json given = make_puzzle(kTask, at_level(kTask.knobs, 1), 5, index)->puzzle.given;
    EXPECT_EQ(counted(given), plain_count(given));
    // Blurred words leave more ways.
    for (const char* key : {"across_words", "down_words"}) {
      for (nlohmann::json& word : given[key]) word = std::string(word.get<std::string>().size(), 'a');
      given[key][0] = std::string(given[key][0].get<std::string>().size(), 'a');
    }
    EXPECT_EQ(counted(given), plain_count(given)) << given.dump();
  }
}

TEST(Wordscapes, WordsCountInTheirSlotsOnly) {
  const nlohmann::json given = board_of({"XXX0", "X000", "XXX0", "0000"}, {"cat", "ton"}, {"cot"});
  const auto code = [&](const char* answer) { return kTask.verify(given, answer).code; };
  EXPECT_EQ(code(R"([["c","a","t"," "],["o"," "," "," "],["t","o","n",""],["0"," "," "," "]])"),
            VerdictCode::kAccepted);
  EXPECT_EQ(code(R"([["C","A","T",""],["O","","",""],["T","O","N",""],["","","",""]])"),
            VerdictCode::kAccepted);
  // The words stand in their rows, but not in their cells: public verifiers take blanks out and look for
  // texts.
  EXPECT_EQ(code(R"([[" ","c","a","t"],["o"," "," "," "],["t","o","n"," "],[" "," "," "," "]])"),
            VerdictCode::kGivenChanged);
  EXPECT_EQ(code(R"([["c","a","t"," "],["o"," "," "," "],["t","o","n"," "],["c","o","t"," "]])"),
            VerdictCode::kGivenChanged);
  EXPECT_EQ(code(R"([["t","o","n"," "],["o"," "," "," "],["t","o","n"," "],[" "," "," "," "]])"),
            VerdictCode::kRuleBroken);
  EXPECT_EQ(code(R"([["c","a","t"," "],["u"," "," "," "],["t","o","n"," "],[" "," "," "," "]])"),
            VerdictCode::kRuleBroken);
  EXPECT_EQ(code(R"([["c","a","t"],["o"," "," "],["t","o","n"],[" "," "," "]])"), VerdictCode::kShape);
  EXPECT_EQ(code(R"([["c","a","t"," "],["o"," "," "," "],["t","o","1"," "],[" "," "," "," "]])"),
            VerdictCode::kUnreadable);
}

TEST(Wordscapes, RunsAreExactlyTheListedWords) {
  for (int64_t index = 0; index < 20; ++index) {
    const Board board = read_given(make_puzzle(kTask, at_level(kTask.knobs, 7), 6, index)->puzzle.given);
    const std::vector<Slot> slots = slots_of(board.grid);
    EXPECT_EQ(slots.size(), board.across.size() + board.down.size());
    std::vector<int> uses(board.grid.cells.size(), 0);
    for (const Slot& slot : slots) {
      for (const size_t cell : slot.cells) ++uses[cell];
    }
    const KnobValues knobs = at_level(kTask.knobs, 7);
    EXPECT_EQ(static_cast<int64_t>(slots.size()), knobs["words"]);
    EXPECT_GE(std::ranges::count(uses, 2), knobs["crossings"]);
  }
}

TEST(Wordscapes, IsOnePuzzleWithAcrossAndDownExchanged) {
  const nlohmann::json one = board_of({"XXX", "X00", "X00"}, {"cat"}, {"cot"}),
                       other = board_of({"XXX", "X00", "X00"}, {"cot"}, {"cat"});
  EXPECT_EQ(kTask.canonical(one), kTask.canonical(other));
  EXPECT_NE(kTask.canonical(one), kTask.canonical(board_of({"XXX", "X00", "X00"}, {"cot"}, {"cut"})));
}

}  // namespace
}  // namespace longhaul::puzzles::wordscapes
