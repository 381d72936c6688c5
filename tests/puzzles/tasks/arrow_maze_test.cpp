// Arrow maze: solutions are counted by trying all arrows in the open cells of small mazes.
#include "puzzles/arrow_maze/arrow_maze.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "puzzles/maker.h"
#include "puzzles/second_checkers/checkers.h"

namespace longhaul::puzzles::arrow_maze {
namespace {

TEST(PuzzleArrowMaze, IsCountedAsByTryingAll) {
  int64_t several = 0;
  for (int64_t i = 0; i < 12; ++i) {
    const auto knobs =
        with_changes(kTask.knobs, at_level(kTask.knobs, 0), {{"side", 3}, {"given_percent", 0}});
    const MadePuzzle made = make_puzzle(kTask, knobs, 8, i).value();
    nlohmann::json maze = nlohmann::json::parse(made.puzzle.solution);
    Draw draw({.task = "opens", .index = static_cast<uint64_t>(i)});
    std::vector<std::pair<size_t, size_t>> open;
    for (size_t tried = 0; tried < 40 && open.size() < 4; ++tried) {
      const size_t r = draw.below(3), c = draw.below(3);
      const std::string cell = maze[r][c];
      if (cell == "X" || (cell[0] >= '0' && cell[0] <= '9')) continue;
      maze[r][c] = "X";
      open.emplace_back(r, c);
    }
    const nlohmann::json given = {{"maze", maze}};
    int64_t plain = 0;
    for (size_t code = 0; code < size_t{1} << (3 * open.size()); ++code) {
      for (size_t k = 0; k < open.size(); ++k)
        maze[open[k].first][open[k].second] = kArrows[code >> (3 * k) & 7].text;
      plain += plain_arrow_maze(given, maze.dump()) ? 1 : 0;
    }
    SearchBudget budget;
    EXPECT_EQ(kTask.count_solutions(given, 10000, budget).found, plain) << given.dump();
    several += plain > 1 ? 1 : 0;
  }
  EXPECT_GT(several, 0);
}

TEST(PuzzleArrowMaze, AnswersByHand) {
  const nlohmann::json given = {{"maze", {{"2", "X", "X"}, {"X", "1", "X"}}}};
  // three in the rays of 2
  EXPECT_FALSE(kTask.verify(given, R"([["2", "→", "→"], ["↓", "1", "→"]])").accepted());
  const nlohmann::json good = {{"maze", {{"3", "X", "X"}, {"X", "1", "X"}}}};
  EXPECT_TRUE(kTask.verify(good, R"([["3", "→", "→"], ["↓", "1", "→"]])").accepted());
  EXPECT_TRUE(kTask.verify(good, R"([[3, "→", "→"], ["↓", 1, "→"]])").accepted());
  // no number in an open cell
  EXPECT_EQ(kTask.verify(good, R"([["3", "→", "→"], ["0", "1", "→"]])").code, VerdictCode::kRuleBroken);
  EXPECT_EQ(kTask.verify(good, R"([["3", "→", "→"], ["X", "1", "→"]])").code, VerdictCode::kRuleBroken);
  EXPECT_EQ(kTask.verify(good, R"([["3", "→", "→"], ["↓", "→", "→"]])").code, VerdictCode::kGivenChanged);
  EXPECT_EQ(kTask.verify(good, R"([["3", "→", "↗"], ["↓", "1", "→"]])").code, VerdictCode::kRuleBroken);
  EXPECT_EQ(kTask.verify(good, R"([["3", "→"], ["↓", "1"]])").code, VerdictCode::kShape);
  // The numbers are right, and an arrow is in no ray.
  const nlohmann::json stray = {{"maze", {{"1", "X", "X"}}}};
  EXPECT_EQ(kTask.verify(stray, R"([["1", "→", "←"]])").code, VerdictCode::kRuleBroken);
}

TEST(PuzzleArrowMaze, NumbersMayHaveTwoDigits) {
  nlohmann::json row = nlohmann::json::array({"10"}), full = row;
  for (int i = 0; i < 10; ++i) row.push_back("X"), full.push_back("→");
  EXPECT_TRUE(kTask.verify({{"maze", nlohmann::json::array({row})}}, nlohmann::json::array({full}).dump())
                  .accepted());
}

TEST(PuzzleArrowMaze, IsOnePuzzleWhenItIsTurned) {
  const nlohmann::json given = {{"maze", {{"3", "→", "X"}, {"X", "1", "X"}, {"↘", "X", "2"}}}},
                       // clockwise
      quarter = {{"maze", {{"↙", "X", "3"}, {"X", "1", "↓"}, {"2", "X", "X"}}}},
                       mirrored = {{"maze", {{"X", "←", "3"}, {"X", "1", "X"}, {"2", "X", "↙"}}}},
                       other = {{"maze", {{"3", "→", "X"}, {"X", "1", "X"}, {"↗", "X", "2"}}}};
  EXPECT_EQ(kTask.canonical(given), kTask.canonical(quarter));
  EXPECT_EQ(kTask.canonical(given), kTask.canonical(mirrored));
  EXPECT_NE(kTask.canonical(given), kTask.canonical(other));
}

}  // namespace
}  // namespace longhaul::puzzles::arrow_maze
