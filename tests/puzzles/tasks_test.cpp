// What holds of every task: solutions are accepted, changed ones are judged as a second checker judges them,
// puzzles that should have one solution have one by a second solver, prompts hold what they must, and
// everything is a function of the seed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "puzzles/dyck_language/dyck_language.h"
#include "puzzles/dyck_language_errors/dyck_language_errors.h"
#include "puzzles/kukurasu/kukurasu.h"
#include "puzzles/maker.h"
#include "puzzles/mathador/mathador.h"
#include "puzzles/records.h"
#include "puzzles/second_checkers/checkers.h"
#include "puzzles/sudoku/sudoku.h"
#include "puzzles/tasks.h"

namespace longhaul::puzzles {
namespace {

using ::testing::HasSubstr;

std::vector<MadePuzzle> some_of(const TaskEntry& task, int64_t level, int64_t count) {
  std::vector<MadePuzzle> all;
  for (int64_t index = 0; index < count; ++index) {
    std::optional<MadePuzzle> made = make_puzzle(task, at_level(task.knobs, level), 11, index);
    EXPECT_TRUE(made.has_value()) << task.key << " level " << level << " index " << index;
    if (made) all.push_back(std::move(*made));
  }
  return all;
}

TEST(PuzzleTasks, SolutionsHoldByASecondCheckerAtEveryLevel) {
  for (const TaskEntry* task : tasks()) {
    for (int64_t level = 0; level <= kHardestLevel; ++level) {
      for (const MadePuzzle& made : some_of(*task, level, 6)) {
        EXPECT_TRUE(second_checker_of(*task)(made.puzzle.given, made.puzzle.solution))
            << task->key << ": " << made.puzzle.given.dump() << " " << made.puzzle.solution;
      }
    }
  }
}

// A changed character, two that change places, one that is lost or doubled: accepted only where the second
// checker takes the changed answer too.
TEST(PuzzleTasks, ChangedSolutionsAreJudgedAsTheSecondCheckerJudges) {
  int64_t refused = 0;
  for (const TaskEntry* task : tasks()) {
    for (const MadePuzzle& made : some_of(*task, 3, 4)) {
      for (uint64_t change = 0; change < 60; ++change) {
        Draw draw({.task = "changes", .index = static_cast<uint64_t>(made.index), .attempt = change});
        std::string text = made.puzzle.solution;
        const size_t at = draw.below(text.size());
        switch (draw.below(4)) {
          case 0:
            text[at] = "0123456789X()[]+-*/ "[draw.below(20)];
            break;
          case 1:
            std::swap(text[at], text[draw.below(text.size())]);
            break;
          case 2:
            text.erase(at, 1);
            break;
          default:
            text.insert(at, 1, text[at]);
        }
        const bool accepted = task->verify(made.puzzle.given, text).accepted();
        refused += accepted ? 0 : 1;
        if (accepted && text != made.puzzle.solution) {
          // Forms that the verifier takes and the second checker does not know are made plain first.
          std::string plain = text;
          std::erase_if(plain, [](char c) { return c == ' '; });
          const bool same = [&] {
            std::string ours = made.puzzle.solution;
            std::erase_if(ours, [](char c) { return c == ' ' || c == '"'; });
            std::string theirs = plain;
            std::erase(theirs, '"');
            return ours == theirs;
          }();
          EXPECT_TRUE(same || second_checker_of(*task)(made.puzzle.given, plain))
              << task->key << " accepts " << text << " of " << made.puzzle.given.dump();
        }
      }
    }
  }
  EXPECT_GT(refused, 800);  // of 1,200
}

TEST(PuzzleTasks, HostileAnswersAreRefusedAndNothingThrows) {
  const std::string deep(50000, '['), wide(60000, '9');
  for (const TaskEntry* task : tasks()) {
    std::vector<MadePuzzle> some = some_of(*task, 2, 20);
    // where nothing is wrong the answer is none, and an empty one is taken for it
    std::erase_if(some, [](const MadePuzzle& one) { return one.puzzle.solution == "none"; });
    const MadePuzzle& made = some.at(0);
    for (const std::string& answer :
         {std::string(), std::string("\0\0", 2), deep, wide, std::string("valid"), std::string("invalid"),
          std::string("None"), std::string("[[]]"), std::string("[[1]]"), std::string("or(True)"),
          std::string("24 or(True)"), std::string("\xFF\xFE")})
      EXPECT_FALSE(task->verify(made.puzzle.given, answer).accepted())
          << task->key << ": " << answer.substr(0, 60);
    // the last whole number counts there, whatever stands around it
    if (task->key == "dyck_language_errors") continue;
    for (const std::string& answer : {made.puzzle.solution + " or(True)", "[" + made.puzzle.solution})
      EXPECT_FALSE(task->verify(made.puzzle.given, answer).accepted())
          << task->key << ": " << answer.substr(0, 60);
  }
}

TEST(PuzzleTasks, GivensOfOthersAreChecked) {
  for (const TaskEntry* task : tasks()) {
    for (const nlohmann::json& given :
         {nlohmann::json(), nlohmann::json::array(), nlohmann::json::object(),
          nlohmann::json{{"original_sudoku", {{1, 2}, {2}}}},
          nlohmann::json{{"original_sudoku", nlohmann::json::array()}},
          nlohmann::json{{"row_sums", {-1}}, {"col_sums", {1}}},
          nlohmann::json{{"full_sequence", std::string(5000, '(')}}, nlohmann::json{{"is_valid", "no"}},
          nlohmann::json{{"numbers", {1.5}}, {"result", 24}}, nlohmann::json{{"n", 99}},
          nlohmann::json{{"grid", {{1, "X"}, {"X", 2}}}, {"constraints", {{{0, 0}, {9, 9}, ">"}}}}}) {
      try {
        task->verify(given, "1");
        ADD_FAILURE() << task->key << " takes " << given.dump().substr(0, 60);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::kData) << task->key;
      }
    }
  }
}

// A sudoku of side 4 by trying all fillings cell by cell, in rows; a kukurasu by trying all sets of marks.
int64_t plain_count_sudoku(NumberGrid& board, int64_t cell) {
  if (cell == 16) return 1;
  if (board.cells[static_cast<size_t>(cell)] != kBlank) return plain_count_sudoku(board, cell + 1);
  int64_t count = 0;
  for (int64_t digit = 1; digit <= 4; ++digit) {
    bool fits = true;
    for (int64_t other = 0; other < 16 && fits; ++other) {
      const bool meets = other / 4 == cell / 4 || other % 4 == cell % 4 ||
                         (other / 8 == cell / 8 && other % 4 / 2 == cell % 4 / 2);
      fits = !meets || board.cells[static_cast<size_t>(other)] != digit;
    }
    if (!fits) continue;
    board.cells[static_cast<size_t>(cell)] = digit;
    count += plain_count_sudoku(board, cell + 1);
    board.cells[static_cast<size_t>(cell)] = kBlank;
  }
  return count;
}

TEST(PuzzleTasks, SudokusAreCountedAsByTryingAll) {
  for (uint64_t i = 0; i < 40; ++i) {
    Draw draw({.task = "boards", .index = i});
    NumberGrid board = sudoku::random_full_grid(4, draw);
    const int64_t open = draw.between(4, 15);
    for (int64_t n = 0; n < open; ++n) board.cells[draw.below(16)] = kBlank;
    SearchBudget budget;
    const SolutionCount count = sudoku::count_solutions(board, 1000, budget);
    EXPECT_TRUE(count.known);
    EXPECT_EQ(count.found, plain_count_sudoku(board, 0)) << grid_lines(board);
  }
  NumberGrid empty(4, 4, kBlank);
  SearchBudget budget;
  EXPECT_EQ(sudoku::count_solutions(empty, 1000, budget).found, 288);  // the number of sudokus of side 4
  SearchBudget small{.nodes = 10};
  EXPECT_FALSE(sudoku::count_solutions(NumberGrid(9, 9, kBlank), 2, small).known);
}

TEST(PuzzleTasks, KukurasusAreCountedAsByTryingAll) {
  for (uint64_t i = 0; i < 40; ++i) {
    Draw draw({.task = "marks", .index = i});
    NumberGrid marks(3, 4);
    for (int64_t& cell : marks.cells) cell = draw.chance(50) ? 1 : 0;
    const kukurasu::Sums sums = kukurasu::sums_of(marks);
    int64_t all = 0;
    for (uint32_t set = 0; set < 1U << 12; ++set) {
      NumberGrid other(3, 4);
      for (size_t cell = 0; cell < 12; ++cell) other.cells[cell] = set >> cell & 1;
      const kukurasu::Sums have = kukurasu::sums_of(other);
      all += have.rows == sums.rows && have.columns == sums.columns ? 1 : 0;
    }
    SearchBudget budget;
    EXPECT_EQ(kukurasu::count_solutions(sums, 100000, budget).found, all);
  }
}

// Those of the Latin squares of side 4 that keep the signs, or show the clues, of a board.
TEST(PuzzleTasks, LatinPuzzlesAreCountedAsByTryingAll) {
  const std::vector<NumberGrid> all = plain_latin_squares(4);
  ASSERT_EQ(all.size(), 576u);
  for (const char* key : {"futoshiki", "skyscraper_puzzle"}) {
    const TaskEntry& task = task_named(key);
    for (uint64_t i = 0; i < 30; ++i) {
      // A made puzzle loses some of what it tells, so that it may have several solutions.
      Draw draw({.task = "loses", .index = i});
      nlohmann::json given =
          make_puzzle(task, with_changes(task.knobs, at_level(task.knobs, 3), {{"side", 4}}), 4,
                      static_cast<int64_t>(i))
              ->puzzle.given;
      if (given.contains("constraints") && !given["constraints"].empty())
        given["constraints"].erase(draw.below(given["constraints"].size()));
      for (const char* side : {"top", "left", "right", "bottom"}) {
        if (given.contains(side)) given[side][draw.below(4)] = 0;
      }
      if (given.contains("grid")) given["grid"][draw.below(4)][draw.below(4)] = "X";
      const auto plain = std::ranges::count_if(
          all, [&](const NumberGrid& one) { return second_checker_of(task)(given, grid_payload(one)); });
      SearchBudget budget;
      EXPECT_EQ(task.count_solutions(given, 10000, budget).found, plain) << given.dump();
    }
  }
}

TEST(PuzzleTasks, ProvedPuzzlesHaveOneSolution) {
  for (const TaskEntry* task : tasks()) {
    if (task->uniqueness != Uniqueness::kProved) continue;
    for (const MadePuzzle& made : some_of(*task, 6, 4)) {
      SearchBudget budget;
      EXPECT_TRUE(task->count_solutions(made.puzzle.given, 2, budget).unique()) << task->key;
    }
  }
}

TEST(PuzzleTasks, MathadorIsSolvedWhereItCanBe) {
  // Of the 495 sets of four numbers from 1 to 9, 404 make 24 (a known count, with fractions on the way).
  int64_t solvable = 0, all = 0;
  for (int64_t a = 1; a <= 9; ++a) {
    for (int64_t b = a; b <= 9; ++b) {
      for (int64_t c = b; c <= 9; ++c) {
        for (int64_t d = c; d <= 9; ++d, ++all) solvable += mathador::solve({a, b, c, d}, 24) ? 1 : 0;
      }
    }
  }
  EXPECT_EQ(all, 495);
  EXPECT_EQ(solvable, 404);
  EXPECT_TRUE(mathador::solve({3, 3, 8, 8}, 24));  // 8 / (3 − 8 / 3)
  EXPECT_FALSE(mathador::solve({1, 1, 1, 1}, 24));
}

TEST(PuzzleTasks, PlacesOfErrorsByHand) {
  const auto place = [](const char* sequence) { return dyck_language_errors::first_error(sequence); };
  EXPECT_EQ(place("([]{})"), -1);
  EXPECT_EQ(place(")"), 1);
  EXPECT_EQ(place("([)]"), 3);
  EXPECT_EQ(place("(("), 3);
  EXPECT_EQ(place("()]"), 3);
  EXPECT_EQ(place(""), -1);
  const nlohmann::json right = {{"sequence", "()"}, {"is_valid", true}, {"first_error_pos", nullptr}};
  const auto accepts = [&](const char* answer) {
    return dyck_language_errors::kTask.verify(right, answer).accepted();
  };
  for (const char* good : {"-1", "There is none: -1", "The answer is -1."})
    EXPECT_TRUE(accepts(good)) << good;
  for (const char* bad : {"-1-1", "5-1", "--1", "1", "valid"}) EXPECT_FALSE(accepts(bad)) << bad;
}

// Tasks whose answers are single letters, numbers or words that a prompt may hold by its nature.
constexpr std::string_view kShortAnswers[] = {
    "boolean_expressions",             //
    "buggy_tables",                    //
    "dyck_language_reasoning_errors",  //
    "object_counting",                 //
    "object_properties",               //
    "operation",                       //
    "space_reasoning",                 //
    "space_reasoning_tree",            //
    "time_sequence",                   //
    "web_of_lies",                     //
    "word_sorting_mistake",            //
};

TEST(PuzzleTasks, PromptsHoldWhatIsAskedInBothLanguages) {
  for (const TaskEntry* task : tasks()) {
    const MadePuzzle made = some_of(*task, 3, 1).at(0);
    for (const Language language : {Language::kEnglish, Language::kChinese}) {
      const Puzzle told = puzzle_in(*task, made.puzzle, language);
      EXPECT_TRUE(task->verify(told.given, told.solution).accepted()) << task->key << ": " << told.solution;
      EXPECT_TRUE(task->verify(made.puzzle.given, told.solution).accepted())
          << task->key << ": " << told.solution;
      std::set<std::string> all;
      for (int64_t which = 0; which < kTemplates; ++which) {
        const std::string prompt = task->prompt(told.given, language, which);
        all.insert(prompt);
        if (std::ranges::find(kShortAnswers, task->key) == std::end(kShortAnswers)) {
          EXPECT_EQ(prompt.find(made.puzzle.solution), std::string::npos) << task->key;
        }
        const bool chinese =
            std::ranges::any_of(prompt, [](char c) { return static_cast<unsigned char>(c) >= 0xE4; });
        EXPECT_EQ(chinese, language == Language::kChinese) << task->key << ": " << prompt;
      }
      EXPECT_EQ(all.size(), static_cast<size_t>(kTemplates)) << task->key;
    }
  }
  const MadePuzzle board = some_of(task_named("sudoku"), 3, 1).at(0);
  EXPECT_THAT(task_named("sudoku").prompt(board.puzzle.given, Language::kEnglish, 0),
              HasSubstr(grid_lines(number_grid(board.puzzle.given["original_sudoku"], "", 9))));
}

TEST(PuzzleTasks, PuzzlesAreOneUnderTheirSymmetries) {
  const TaskEntry& sudoku = task_named("sudoku");
  const MadePuzzle made = some_of(sudoku, 3, 1).at(0);
  NumberGrid board = number_grid(made.puzzle.given["original_sudoku"], "", 9);
  NumberGrid other = turned(board).at(3);
  for (int64_t& cell : other.cells) cell = cell == kBlank ? kBlank : cell % 9 + 1;
  EXPECT_EQ(sudoku.canonical(made.puzzle.given), sudoku.canonical({{"original_sudoku", grid_json(other)}}));
  for (int64_t& cell : other.cells) {
    if (cell != kBlank) {
      cell = kBlank;
      break;
    }
  }
  EXPECT_NE(sudoku.canonical(made.puzzle.given), sudoku.canonical({{"original_sudoku", grid_json(other)}}));
  const TaskEntry& mathador = task_named("mathador");
  EXPECT_EQ(mathador.canonical({{"numbers", {1, 2, 3}}, {"result", 6}}),
            mathador.canonical({{"numbers", {3, 1, 2}}, {"result", 6}}));
}

}  // namespace
}  // namespace longhaul::puzzles
