// Campsite: tents are counted by trying all sets of cells, and pairs of trees and tents are looked for as a
// whole.
#include "puzzles/campsite/campsite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "puzzles/maker.h"
#include "puzzles/second_checkers/checkers.h"

namespace longhaul::puzzles::campsite {
namespace {

TEST(PuzzleCampsite, IsCountedAsByTryingAll) {
  int64_t none = 0, several = 0;
  for (uint64_t i = 0; i < 120; ++i) {
    Draw draw({.task = "camps", .index = i});
    LetterGrid grid(3, 4, 'X');
    for (int tree = 0; tree < 3; ++tree) grid.cells[draw.below(12)] = 'T';
    nlohmann::json given = {{"grid", letters_json(grid)}, {"n", 3}, {"m", 4}};
    // of sets of tents with which everything else is right
    std::vector<std::pair<std::vector<int>, std::vector<int>>> counts;
    for (uint32_t set = 0; set < 1U << 12; ++set) {
      LetterGrid camp = grid;
      std::vector<int> rows(3), columns(4);
      bool fits = true;
      for (size_t cell = 0; cell < 12 && fits; ++cell) {
        if ((set >> cell & 1) == 0) continue;
        fits = grid.cells[cell] == 'X';
        camp.cells[cell] = 'C';
        ++rows[cell / 4], ++columns[cell % 4];
      }
      given["row_constraints"] = rows, given["col_constraints"] = columns;
      if (fits && plain_campsite(given, letters_payload(camp))) counts.emplace_back(rows, columns);
    }
    if (counts.empty()) continue;
    const auto wanted = draw.pick(counts);
    given["row_constraints"] = wanted.first, given["col_constraints"] = wanted.second;
    SearchBudget budget;
    const auto plain = std::ranges::count(counts, wanted);
    EXPECT_EQ(kTask.count_solutions(given, 1000, budget).found, plain) << given.dump();
    several += plain > 1 ? 1 : 0;
    // One tent more in a row and in a column than there are trees.
    ++given["row_constraints"][0].get_ref<int64_t&>();
    ++given["col_constraints"][0].get_ref<int64_t&>();
    SearchBudget other;
    none += kTask.count_solutions(given, 10, other).found == 0 ? 1 : 0;
  }
  EXPECT_GT(several, 3);
  EXPECT_GT(none, 60);
}

TEST(PuzzleCampsite, EachTreeHasATentOfItsOwn) {
  // The first two trees have one tent between them, and the third has two.
  const nlohmann::json given = {{"grid", {{"T", "X", "T", "X", "X", "T", "X"}}},
                                {"row_constraints", {3}},
                                {"col_constraints", {0, 1, 0, 0, 1, 0, 1}},
                                {"n", 1},
                                {"m", 7}};
  EXPECT_EQ(kTask.verify(given, R"([["T", "C", "T", "X", "C", "T", "C"]])").code, VerdictCode::kRuleBroken);
  SearchBudget budget;
  EXPECT_EQ(kTask.count_solutions(given, 10, budget).found, 0);
}

TEST(PuzzleCampsite, AnswersByHand) {
  const nlohmann::json given = {{"grid", {{"T", "X", "X"}, {"X", "X", "T"}}},
                                {"row_constraints", {1, 1}},
                                {"col_constraints", {1, 0, 1}},
                                {"n", 2},
                                {"m", 3}};
  EXPECT_TRUE(kTask.verify(given, R"([["T", "X", "C"], ["C", "X", "T"]])").accepted());
  EXPECT_TRUE(kTask.verify(given, "[[T X C,C X T]]").accepted());
  EXPECT_EQ(kTask.verify(given, R"([["T", "C", "X"], ["X", "C", "T"]])").code, VerdictCode::kRuleBroken);
  EXPECT_EQ(kTask.verify(given, R"([["X", "X", "C"], ["C", "X", "T"]])").code, VerdictCode::kGivenChanged);
  EXPECT_EQ(kTask.verify(given, R"([["T", "X", "C"]])").code, VerdictCode::kShape);
  EXPECT_EQ(kTask.verify(given, R"([["T", "X", "C"], ["C", "Z", "T"]])").code, VerdictCode::kUnreadable);
  // Two tents that touch at a corner.
  const nlohmann::json near = {{"grid", {{"T", "X", "X", "X"}, {"X", "X", "X", "T"}, {"X", "X", "X", "X"}}},
                               {"row_constraints", {1, 1, 0}},
                               {"col_constraints", {0, 1, 1, 0}},
                               {"n", 3},
                               {"m", 4}};
  EXPECT_EQ(kTask.verify(near, R"([["T", "C", "X", "X"], ["X", "X", "C", "T"], ["X", "X", "X", "X"]])").code,
            VerdictCode::kRuleBroken);
}

}  // namespace
}  // namespace longhaul::puzzles::campsite
