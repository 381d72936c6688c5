// Numbrix: paths through grids are counted, and those that are drawn differ.
#include "puzzles/numbrix/numbrix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "base/error.h"
#include "puzzles/maker.h"
#include "puzzles/second_checkers/checkers.h"

namespace longhaul::puzzles::numbrix {
namespace {

int64_t counted_numbrix(const NumberGrid& board) {
  SearchBudget budget;
  const SolutionCount count = kTask.count_solutions({{"grid", grid_json(board)}}, 1'000'000, budget);
  EXPECT_TRUE(count.known);
  return count.found;
}

TEST(PuzzleNumbrix, EmptyGridsHaveTheKnownNumbersOfPaths) {
  // Directed paths through all cells of a square grid, for sides 1, 2, 3 and 4.
  EXPECT_EQ(counted_numbrix(NumberGrid(1, 1, kBlank)), 1);
  EXPECT_EQ(counted_numbrix(NumberGrid(2, 2, kBlank)), 8);
  EXPECT_EQ(counted_numbrix(NumberGrid(3, 3, kBlank)), 40);
  EXPECT_EQ(counted_numbrix(NumberGrid(4, 4, kBlank)), 552);
}

TEST(PuzzleNumbrix, IsCountedAsByTryingAll) {
  std::vector<NumberGrid> all;  // of side 3, by trying all orders of nine numbers
  NumberGrid grid(3, 3);
  std::iota(grid.cells.begin(), grid.cells.end(), int64_t{1});
  const nlohmann::json nothing = {{"grid", grid_json(NumberGrid(3, 3, kBlank))}};
  do {
    if (std::abs(grid.cells[0] - grid.cells[1]) % 2 == 1 && plain_numbrix(nothing, grid_payload(grid)))
      all.push_back(grid);
  } while (std::ranges::next_permutation(grid.cells).found);
  ASSERT_EQ(all.size(), 40u);
  for (uint64_t i = 0; i < 60; ++i) {
    Draw draw({.task = "paths", .index = i});
    NumberGrid board = draw.pick(all);
    for (int64_t open = draw.between(4, 8); open > 0; --open) board.cells[draw.below(9)] = kBlank;
    const auto plain = std::ranges::count_if(all, [&](const NumberGrid& one) {
      return plain_numbrix({{"grid", grid_json(board)}}, grid_payload(one));
    });
    EXPECT_EQ(counted_numbrix(board), plain) << grid_lines(board);
  }
}

TEST(PuzzleNumbrix, DrawnPathsAreNoSnakes) {
  std::set<std::string> different;
  int64_t begins_in_a_corner = 0;
  for (uint64_t i = 0; i < 200; ++i) {
    Draw draw({.task = "numbrix", .index = i});
    const NumberGrid full = random_full_grid(6, draw);
    different.insert(canonical_grid(full));
    for (const int64_t corner : {0, 5, 30, 35})
      begins_in_a_corner += full.cells[static_cast<size_t>(corner)] == 1 ? 1 : 0;
  }
  EXPECT_EQ(different.size(), 200u);
  EXPECT_LT(begins_in_a_corner, 120);
  EXPECT_GT(begins_in_a_corner, 0);
}

TEST(PuzzleNumbrix, AnswersByHand) {
  const nlohmann::json given = {{"grid", {{1, "X", 3}, {"X", "X", "X"}, {7, "X", 9}}}};
  EXPECT_TRUE(kTask.verify(given, "[[1, 2, 3], [6, 5, 4], [7, 8, 9]]").accepted());
  EXPECT_EQ(kTask.verify(given, "[[1, 2, 3], [6, 5, 4], [7, 9, 8]]").code, VerdictCode::kGivenChanged);
  EXPECT_EQ(kTask.verify(given, "[[1, 2, 3], [4, 5, 6], [7, 8, 9]]").code, VerdictCode::kRuleBroken);
  EXPECT_EQ(kTask.verify(given, "[[1, 2, 3], [6, 5, 5], [7, 8, 9]]").code, VerdictCode::kRuleBroken);
  EXPECT_EQ(kTask.verify(given, "[[1, 2, 3], [6, 5, 4]]").code, VerdictCode::kShape);
}

TEST(PuzzleNumbrix, IsOnePuzzleFromTheOtherEnd) {
  const nlohmann::json given = {{"grid", {{1, "X", 3}, {"X", "X", "X"}, {7, "X", 9}}}},
                       // turned and counted backwards: 10 - number
      other = {{"grid", {{3, "X", 9}, {"X", "X", "X"}, {1, "X", 7}}}},
                       third = {{"grid", {{1, "X", 3}, {"X", "X", "X"}, {"X", "X", 9}}}};
  EXPECT_EQ(kTask.canonical(given), kTask.canonical({{"grid", {{9, "X", 7}, {"X", "X", "X"}, {3, "X", 1}}}}));
  EXPECT_EQ(kTask.canonical(given), kTask.canonical(other));
  EXPECT_NE(kTask.canonical(given), kTask.canonical(third));
}

TEST(PuzzleNumbrix, GivensAreChecked) {
  for (const nlohmann::json& grid :
       {nlohmann::json{{1, "X", 2}, {"X", "X", "X"}, {"X", "X", "X"}}, nlohmann::json{{1, 1}, {"X", "X"}},
        nlohmann::json{{5, "X"}, {"X", "X"}}, nlohmann::json{{1, "X", "X"}}})
    EXPECT_THROW(kTask.verify({{"grid", grid}}, "1"), Error) << grid;
}

}  // namespace
}  // namespace longhaul::puzzles::numbrix
