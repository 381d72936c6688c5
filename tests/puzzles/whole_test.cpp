// Every task at every level: puzzles that promise one solution have one by two solvers, the second from
// outside (second_solvers/), and changed solutions are accepted only where the second checker accepts them
// too. The nightly tests take LONGHAUL_TEST_PUZZLES (default 300) of each task and level, the others one.
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "base/threads/parallel.h"
#include "puzzles/changed_answers.h"
#include "puzzles/engine/answers/answer.h"
#include "puzzles/maker.h"
#include "puzzles/second_checkers/checkers.h"
#include "puzzles/second_solvers/encoders.h"
#include "puzzles/tasks.h"
#include "support/nightly.h"

namespace longhaul::puzzles {
namespace {

using longhaul::testing::takes_all;

int64_t puzzles_of_a_level() {
  const char* count = std::getenv("LONGHAUL_TEST_PUZZLES");
  if (count != nullptr) return std::atoll(count);
  return takes_all() ? 300 : 1;
}

std::vector<int64_t> some_levels() {
  if (!takes_all()) return {1, 6};
  std::vector<int64_t> all;
  for (int64_t level = 0; level <= kHardestLevel; ++level) all.push_back(level);
  return all;
}

// Of a task and level, different ones on every night would say nothing of tomorrow's; these are always the
// same.
template <class Body>
void for_each_puzzle(const Body& body) {
  for (const TaskEntry* task : tasks()) {
    for (const int64_t level : some_levels()) {
      for (int64_t index = 0; index < puzzles_of_a_level(); ++index) {
        const std::optional<MadePuzzle> made = make_puzzle(*task, at_level(task->knobs, level), 77, index);
        ASSERT_TRUE(made.has_value()) << task->key << " level " << level << " index " << index;
        body(*task, level, *made);
      }
    }
  }
}

// The words and numbers of an answer, without what stands between them.
std::vector<std::string> words_of(const std::string& answer) {
  std::vector<std::string> words(1);
  for (const char c : plain_characters(answer)) {
    if (std::string_view(" \t\n\"'[](),").find(c) == std::string_view::npos) {
      words.back() += c;
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

// A change of brackets, blanks and quotes is none; nor is an answer that says the same twice, of which the
// last counts.
bool says_the_same(const std::string& answer, const std::string& solution) {
  const std::vector<std::string> words = words_of(answer), right = words_of(solution);
  if (words == right) return true;
  std::vector<std::string> twice = right;
  twice.insert(twice.end(), right.begin(), right.end());
  return words == twice;
}

TEST(PuzzlesWhole, ChangedSolutionsAreJudgedAsTheSecondCheckerJudges) {
  int64_t changed = 0, refused = 0;
  for_each_puzzle([&](const TaskEntry& task, int64_t level, const MadePuzzle& made) {
    EXPECT_TRUE(second_checker_of(task)(made.puzzle.given, made.puzzle.solution))
        << task.key << " level " << level;
    for (uint64_t change = 0; change < 50; ++change) {
      Draw draw({.task = task.key, .seed = 1, .index = static_cast<uint64_t>(made.index), .attempt = change});
      const std::string answer = changed_answer(made.puzzle.solution, draw);
      if (says_the_same(answer, made.puzzle.solution)) continue;
      ++changed;
      if (!task.verify(made.puzzle.given, answer).accepted()) {
        ++refused;
        continue;
      }
      EXPECT_TRUE(second_checker_of(task)(made.puzzle.given, answer))
          << task.key << " level " << level << " accepts " << answer << " of " << made.puzzle.given.dump();
    }
  });
  EXPECT_GT(refused, changed * 8 / 10);
}

TEST(PuzzlesWhole, ThatPromiseOneSolutionHaveOneByTwoSolvers) {
  const bool outside = has_sat_solver();
  EXPECT_TRUE(outside || !takes_all())
      << "the second solver is missing; type (as root):  apt-get install -y picosat";
  std::set<std::string_view> by_both;
  for_each_puzzle([&](const TaskEntry& task, int64_t level, const MadePuzzle& made) {
    if (task.uniqueness != Uniqueness::kProved) return;
    SearchBudget budget{.nodes = 50'000'000};
    EXPECT_TRUE(task.count_solutions(made.puzzle.given, 2, budget).unique())
        << task.key << " level " << level << " index " << made.index;
    if (!outside || encoder_of(task.key) == nullptr) return;
    Cnf cnf;
    const Literals places = encoder_of(task.key)(made.puzzle.given, cnf);
    EXPECT_EQ(count_models(cnf, places, 2), 1)
        << task.key << " level " << level << ": " << made.puzzle.given.dump();
    by_both.insert(task.key);
  });
  EXPECT_TRUE(!outside || by_both.size() >= 14) << by_both.size();
}

// A puzzle that loses something that it tells may have several solutions: both solvers count as many.
nlohmann::json with_less(const std::string_view task, nlohmann::json given, Draw& draw) {
  if (task == "sudoku") {
    auto& board = given["original_sudoku"];
    for (int i = 0; i < 6; ++i) board[draw.below(board.size())][draw.below(board.size())] = "X";
  } else if (task == "futoshiki") {
    for (int i = 0; i < 3 && !given["constraints"].empty(); ++i)
      given["constraints"].erase(draw.below(given["constraints"].size()));
  } else if (task == "skyscraper_puzzle") {
    for (const char* side : {"top", "bottom", "left", "right"})
      given[side][draw.below(given[side].size())] = 0;
    given.erase("grid");
  } else if (task == "kukurasu") {
    // a mark that moves along its column changes two sums; there may be none or several solutions
    given["row_sums"][0] = given["row_sums"][0].get<int64_t>() + 1;
    given["col_sums"][0] = given["col_sums"][0].get<int64_t>() + 1;
  } else if (task == "calcudoko") {
    auto& cage = given["regions"][draw.below(given["regions"].size())];
    cage["target"] = cage["target"].get<int64_t>() + 1;
  } else if (task == "zebra_puzzle") {
    given["clues"].erase(draw.below(given["clues"].size()));
  } else if (task == "survo") {  // one more cell is open
    auto& cell = given["original_matrix"][draw.below(given["original_matrix"].size() - 1)][0];
    if (cell != 0) given["candidate_numbers"].push_back(cell);
    cell = 0;
  } else if (task == "campsite") {
    auto& rows = given["row_constraints"];
    std::swap(rows[draw.below(rows.size())], rows[draw.below(rows.size())]);
  } else if (task == "numbrix" || task == "arrow_maze") {  // numbers, or arrows, are hidden
    auto& cells = given[task == "numbrix" ? "grid" : "maze"];
    for (int i = 0; i < 12; ++i) {
      auto& cell = cells[draw.below(cells.size())][draw.below(cells.size())];
      if (task == "numbrix" || std::isdigit(static_cast<unsigned char>(cell.get<std::string>()[0])) == 0)
        cell = "X";
    }
  } else if (task == "norinori" || task == "star_placement_puzzle") {
    auto& cells = given["region_grid"];
    std::swap(cells[draw.below(cells.size())][0], cells[draw.below(cells.size())][1]);
  }
  return given;
}

TEST(PuzzlesWhole, ThatTellLessHaveAsManySolutionsByTwoSolvers) {
  if (!has_sat_solver()) GTEST_SKIP() << "picosat is not installed (scripts/packages-test.txt)";
  constexpr int64_t kMost = 6;
  std::set<int64_t> counts;
  for (const TaskEntry* task : tasks()) {
    if (encoder_of(task->key) == nullptr) continue;
    for (int64_t index = 0; index < (takes_all() ? 100 : 4); ++index) {
      Draw draw({.task = "with less", .index = static_cast<uint64_t>(index)});
      const MadePuzzle made = make_puzzle(*task, at_level(task->knobs, 1 + index % 3), 78, index).value();
      const nlohmann::json given = with_less(task->key, made.puzzle.given, draw);
      SearchBudget budget{.nodes = 50'000'000};
      const SolutionCount count = task->count_solutions(given, kMost, budget);
      EXPECT_TRUE(count.known);
      Cnf cnf;
      const Literals places = encoder_of(task->key)(given, cnf);
      EXPECT_EQ(count_models(cnf, places, kMost), count.found) << task->key << ": " << given.dump();
      counts.insert(count.found);
    }
  }
  EXPECT_GE(counts.size(), 3u);  // none, one, several
}

// Clauses by hand.
TEST(PuzzleClauses, CountWhatTheySay) {
  if (!has_sat_solver()) GTEST_SKIP() << "picosat is not installed (scripts/packages-test.txt)";
  Cnf one;
  const Literals three = {one.variable(), one.variable(), one.variable()};
  one.exactly_one(three);
  EXPECT_EQ(count_models(one, three, 10), 3);
  EXPECT_EQ(count_models(one, three, 2), 2);
  Cnf sum;
  std::vector<std::pair<int, int64_t>> weighted;
  Literals places;
  for (int64_t weight = 1; weight <= 6; ++weight) {
    places.push_back(sum.variable());
    weighted.emplace_back(places.back(), weight);
  }
  sum.adds_up(weighted, 10);
  EXPECT_EQ(count_models(sum, places, 20), 5);  // 4+6, 1+3+6, 1+4+5, 2+3+5, 1+2+3+4
  Cnf any;
  const int a = any.variable(), b = any.variable(), either = any.variable();
  any.iff_any(either, {a, b});
  any.clause({-either});
  EXPECT_EQ(count_models(any, {a, b}, 10), 1);
  Cnf none;
  none.clause({none.variable()});
  none.clause({-1});
  EXPECT_EQ(model_of(none), std::nullopt);
}

}  // namespace
}  // namespace longhaul::puzzles
