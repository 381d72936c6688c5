// Number wall: solutions are counted by trying all sets of walls of small grids.
#include "puzzles/number_wall/number_wall.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "puzzles/maker.h"
#include "puzzles/second_checkers/checkers.h"

namespace longhaul::puzzles::number_wall {
namespace {

std::string wall_payload(const NumberGrid& board, uint32_t land) {
  std::string text = "[";
  for (size_t cell = 0; cell < board.cells.size(); ++cell) {
    if (cell % static_cast<size_t>(board.columns) == 0) text += cell == 0 ? "[" : "], [";
    if (cell % static_cast<size_t>(board.columns) != 0) text += ", ";
    text += board.cells[cell] != kBlank ? std::to_string(board.cells[cell])
            : (land >> cell & 1) != 0   ? "\"X\""
                                        : "\"A\"";
  }
  return text + "]]";
}

TEST(PuzzleNumberWall, IsCountedAsByTryingAll) {
  int64_t several = 0;
  for (uint64_t i = 0; i < 25; ++i) {
    Draw draw({.task = "walls", .index = i});
    NumberGrid board(4, 3, kBlank);
    for (int64_t n = draw.between(1, 3); n > 0; --n) board.cells[draw.below(12)] = draw.between(1, 4);
    const nlohmann::json given = {{"grid", grid_json(board)}, {"n", 4}};
    int64_t plain = 0;
    for (uint32_t land = 0; land < 1U << 12; ++land) {
      bool numbers = true;
      for (size_t cell = 0; cell < 12; ++cell)
        numbers = numbers && (board.cells[cell] == kBlank || (land >> cell & 1) != 0);
      plain += numbers && plain_number_wall(given, wall_payload(board, land)) ? 1 : 0;
    }
    SearchBudget budget;
    EXPECT_EQ(kTask.count_solutions(given, 10000, budget).found, plain) << grid_lines(board);
    several += plain > 1 ? 1 : 0;
  }
  EXPECT_GT(several, 2);
}

TEST(PuzzleNumberWall, AnswersByHand) {
  const nlohmann::json given = {{"grid", {{2, "X", "X"}, {"X", "X", 1}, {"X", "X", "X"}}}, {"n", 3}};
  // corner and square
  EXPECT_EQ(kTask.verify(given, R"([[2, "X", "A"], ["A", "A", 1], ["A", "A", "A"]])").code,
            VerdictCode::kRuleBroken);
  const nlohmann::json good = {{"grid", {{2, "X", "X"}, {"X", "X", "X"}, {"X", 1, "X"}}}, {"n", 3}};
  EXPECT_TRUE(kTask.verify(good, R"([[2, "X", "A"], ["A", "A", "A"], ["A", 1, "A"]])").accepted());
  // a corner and a square
  EXPECT_FALSE(kTask.verify(good, R"([[2, "A", "A"], ["X", "A", "A"], ["A", 1, "A"]])").accepted());
  EXPECT_EQ(kTask.verify(good, R"([[2, "X", "X"], ["A", "A", "A"], ["A", 1, "A"]])").code,
            VerdictCode::kRuleBroken);
  // an island of its own
  EXPECT_EQ(kTask.verify(good, R"([[2, "X", "A"], ["A", "A", 1], ["A", 1, "A"]])").code,
            VerdictCode::kRuleBroken);
  EXPECT_EQ(kTask.verify(good, R"([[2, "X", "A"], ["A", "A", "A"], ["A", "A", "A"]])").code,
            VerdictCode::kGivenChanged);
  EXPECT_EQ(kTask.verify(good, R"([[2, "X", "A"], ["A", "A", "A"]])").code, VerdictCode::kShape);
}

TEST(PuzzleNumberWall, IslandsMustNotTouchAtCorners) {
  const nlohmann::json given = {{"grid", {{1, "X"}, {"X", 1}}}, {"n", 2}};
  EXPECT_EQ(kTask.verify(given, R"([[1, "A"], ["A", 1]])").code, VerdictCode::kRuleBroken);
  SearchBudget budget;
  EXPECT_EQ(kTask.count_solutions(given, 10, budget).found, 0);
}

}  // namespace
}  // namespace longhaul::puzzles::number_wall
