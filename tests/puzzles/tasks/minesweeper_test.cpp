// Minesweeper: certain mines are those of all arrangements, tried one by one on small boards.
#include "puzzles/minesweeper/minesweeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "puzzles/maker.h"

namespace longhaul::puzzles::minesweeper {
namespace {

TEST(PuzzleMinesweeper, CertainMinesAreThoseOfAllArrangements) {
  int64_t some = 0;
  for (uint64_t i = 0; i < 150; ++i) {
    Draw draw({.task = "fields", .index = i});
    std::vector<int> mine(16), shown(16);
    for (size_t cell = 0; cell < 16; ++cell)
      mine[cell] = draw.chance(30) ? 1 : 0, shown[cell] = mine[cell] == 0 && draw.chance(55) ? 1 : 0;
    const auto around = [](size_t cell, const auto& each) {
      for (size_t other = 0; other < 16; ++other) {
        const size_t r = other / 4 > cell / 4 ? other / 4 - cell / 4 : cell / 4 - other / 4;
        const size_t c = other % 4 > cell % 4 ? other % 4 - cell % 4 : cell % 4 - other % 4;
        if (other != cell && r <= 1 && c <= 1) each(other);
      }
    };
    NumberGrid grid(4, 4, kBlank);
    CellSet mines;
    for (size_t cell = 0; cell < 16; ++cell) {
      if (mine[cell] == 1) mines.add(static_cast<int64_t>(cell));
      if (shown[cell] == 0) continue;
      grid.cells[cell] = 0;
      around(cell, [&](size_t other) { grid.cells[cell] += mine[other]; });
    }
    uint32_t always = 0xFFFF;
    for (uint32_t set = 0; set < 1U << 16; ++set) {
      bool fits = true;
      for (size_t cell = 0; cell < 16 && fits; ++cell) {
        if (shown[cell] == 0) continue;
        int64_t count = 0;
        around(cell, [&](size_t other) { count += set >> other & 1; });
        fits = (set >> cell & 1) == 0 && count == grid.cells[cell];
      }
      if (fits) always &= set;
    }
    CellSet plain;
    for (int64_t cell = 0; cell < 16; ++cell) {
      if ((always >> cell & 1) != 0) plain.add(cell);
    }
    SearchBudget budget;
    const auto certain = certain_mines(grid, mines, budget);
    ASSERT_TRUE(certain.has_value());
    EXPECT_EQ(*certain, plain) << grid_lines(grid);
    EXPECT_TRUE(single_mines(grid).inside(plain));
    some += plain.empty() ? 0 : 1;
  }
  EXPECT_GT(some, 50);
}

TEST(PuzzleMinesweeper, MinesThatFollowFromSeveralNumbersCount) {
  NumberGrid grid(2, 3, kBlank);  // X X X over 1 2 1: the middle cell is safe
  grid.at(1, 0) = 1, grid.at(1, 1) = 2, grid.at(1, 2) = 1;
  CellSet mines;
  mines.add(0), mines.add(2);
  SearchBudget budget;
  EXPECT_TRUE(single_mines(grid).empty());
  EXPECT_EQ(certain_mines(grid, mines, budget), mines);
}

TEST(PuzzleMinesweeper, NothingIsCertainOnceTheBudgetIsSpent) {
  NumberGrid grid(1, 3, kBlank);  // X 1 _: the mine may be on either side
  grid.at(0, 1) = 1;
  CellSet mines;
  mines.add(0);
  SearchBudget budget, none{.nodes = 0};
  EXPECT_EQ(certain_mines(grid, mines, budget), CellSet());
  EXPECT_EQ(certain_mines(grid, mines, none), std::nullopt);
}

TEST(PuzzleMinesweeper, EasyBoardsNeedOneNumberAtATimeAndHardOnesSeveral) {
  for (const int64_t level : {int64_t{0}, int64_t{4}, int64_t{7}}) {
    for (int64_t i = 0; i < 5; ++i) {
      const nlohmann::json given = make_puzzle(kTask, at_level(kTask.knobs, level), 3, i)->puzzle.given;
      const Board board = read_given(given);
      EXPECT_EQ(single_mines(board.grid) == board.mines, level < 5) << level;
    }
  }
}

TEST(PuzzleMinesweeper, AnswersByHand) {
  const nlohmann::json given = {{"grid", {{"X", "X", "X"}, {1, 2, 1}}}, {"current_mines", {{0, 0}, {0, 2}}}};
  EXPECT_TRUE(kTask.verify(given, "[(0, 0), (0, 2)]").accepted());
  EXPECT_TRUE(kTask.verify(given, "[[0, 2], [0, 0], [0, 2]]").accepted());
  EXPECT_EQ(kTask.verify(given, "[(0, 0)]").code, VerdictCode::kRuleBroken);
  EXPECT_EQ(kTask.verify(given, "[(0, 0), (0, 2), (0, 1)]").code, VerdictCode::kRuleBroken);
  EXPECT_EQ(kTask.verify(given, "[(0, 0), (0, 3)]").code, VerdictCode::kShape);
  EXPECT_EQ(kTask.verify(given, "[0, 0, 0, 2]").code, VerdictCode::kUnreadable);
  EXPECT_THROW(kTask.verify({{"grid", {{"X", 1, "X"}}}, {"current_mines", {{0, 1}}}}, "[]"), Error);
}

}  // namespace
}  // namespace longhaul::puzzles::minesweeper
