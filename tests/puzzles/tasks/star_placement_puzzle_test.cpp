// Star placement: the known numbers of placements without regions, and solutions with regions by trying all
// placements.
#include "puzzles/star_placement_puzzle/star_placement_puzzle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "puzzles/engine/grids/regions.h"
#include "puzzles/maker.h"
#include "puzzles/second_checkers/checkers.h"

namespace longhaul::puzzles::star_placement_puzzle {
namespace {

std::vector<CellSet> all_placements(int64_t side, int64_t stars) {
  std::vector<CellSet> all;
  SearchBudget budget;
  solve({stars, LetterGrid(side, side, 'A'), NumberGrid()}, budget, [&](const CellSet& placed) {
    all.push_back(placed);
    return true;
  });
  EXPECT_FALSE(budget.spent());
  return all;
}

TEST(PuzzleStars, PlacementsWithoutRegionsAreTheKnownNumbers) {
  EXPECT_EQ(all_placements(4, 1).size(), 2u);
  EXPECT_EQ(all_placements(5, 1).size(), 14u);
  EXPECT_EQ(all_placements(6, 1).size(), 90u);
  EXPECT_EQ(all_placements(7, 1).size(), 646u);
  EXPECT_EQ(all_placements(8, 1).size(), 5242u);
  EXPECT_EQ(all_placements(7, 2).size(), 0u);
  EXPECT_EQ(all_placements(8, 2).size(), 2u);
  EXPECT_EQ(all_placements(9, 2).size(), 664u);
}

std::string stars_payload(const CellSet& stars, const LetterGrid& letters) {
  std::string text = "{";
  for (const char letter : std::string("ABCDE")) {
    text += fmt::format("{}\"{}\": [", text.size() > 1 ? ", " : "", letter);
    bool first = true;
    stars.for_each([&](int64_t cell) {
      if (letters.cells[static_cast<size_t>(cell)] != letter) return;
      text += fmt::format("{}({}, {})", std::exchange(first, false) ? "" : ", ", cell / letters.columns + 1,
                          cell % letters.columns + 1);
    });
    text += "]";
  }
  return text + "}";
}

TEST(PuzzleStars, SolutionsWithRegionsAreCountedAsByTryingAll) {
  const std::vector<CellSet> all = all_placements(5, 1);
  const Neighbours near(5, 5);
  int64_t several = 0;
  for (uint64_t i = 0; i < 80; ++i) {
    Draw draw({.task = "regions", .index = i});
    NumberGrid regions(5, 5, kBlank);
    std::vector<int64_t> seeds = near.all().cells();
    draw.shuffle(seeds);
    for (int64_t region = 0; region < 5; ++region)
      regions.cells[static_cast<size_t>(seeds[static_cast<size_t>(region)])] = region;
    ASSERT_TRUE(grow_regions(regions, near, {}, draw));
    for (const CellSet& region : cells_of_regions(regions)) EXPECT_TRUE(near.is_connected(region));
    const LetterGrid letters = region_letters(regions);
    const nlohmann::json given = {{"n", 5}, {"k", 1}, {"region_grid", letters_json(letters)}};
    const auto plain = std::ranges::count_if(
        all, [&](const CellSet& one) { return plain_stars(given, stars_payload(one, letters)); });
    SearchBudget budget;
    EXPECT_EQ(kTask.count_solutions(given, 100, budget).found, plain) << letter_lines(letters);
    several += plain > 1 ? 1 : 0;
  }
  EXPECT_GT(several, 5);
}

TEST(PuzzleStars, DrawnPlacementsDiffer) {
  std::set<std::vector<int64_t>> five, nine;
  for (uint64_t i = 0; i < 100; ++i) {
    Draw draw({.task = "stars", .index = i});
    five.insert(random_stars(5, 1, draw)->cells());
    nine.insert(random_stars(9, 2, draw)->cells());
  }
  EXPECT_EQ(five.size(), 14u);  // all that there are
  EXPECT_GT(nine.size(), 50u);
}

TEST(PuzzleStars, AnswersByHand) {
  const nlohmann::json given = {
      {"n", 4},
      {"k", 1},
      {"region_grid",
       {{"A", "A", "B", "B"}, {"A", "A", "B", "B"}, {"C", "C", "D", "D"}, {"C", "C", "D", "D"}}}};
  EXPECT_TRUE(
      kTask.verify(given, R"({"A": [(1, 2)], "B": [(2, 4)], "C": [(3, 1)], "D": [(4, 3)]})").accepted());
  EXPECT_TRUE(kTask.verify(given, "{D: [[4, 3]], 'B': ((2, 4),), 'C': [(3, 1)], 'A': [(1, 2)]}").accepted());
  EXPECT_EQ(kTask.verify(given, R"({"A": [(1, 2)], "B": [(2, 4)], "C": [(3, 1)]})").code,
            VerdictCode::kRuleBroken);
  EXPECT_EQ(kTask.verify(given, R"({"B": [(1, 2)], "A": [(2, 4)], "C": [(3, 1)], "D": [(4, 3)]})").code,
            VerdictCode::kRuleBroken);
  EXPECT_EQ(kTask.verify(given, R"({"A": [(1, 1)], "B": [(2, 3)], "C": [(3, 2)], "D": [(4, 4)]})").code,
            VerdictCode::kRuleBroken);
  EXPECT_EQ(
      kTask.verify(given, R"({"A": [(1, 2), (1, 2)], "B": [(2, 4)], "C": [(3, 1)], "D": [(4, 3)]})").code,
      VerdictCode::kRuleBroken);
  EXPECT_EQ(kTask.verify(given, R"({"A": [(1, 2)], "E": [(2, 4)], "C": [(3, 1)], "D": [(4, 3)]})").code,
            VerdictCode::kShape);
  EXPECT_EQ(kTask.verify(given, R"({"A": [(1, 9)], "B": [(2, 4)], "C": [(3, 1)], "D": [(4, 3)]})").code,
            VerdictCode::kShape);
  EXPECT_EQ(kTask.verify(given, "[(1, 2), (2, 4), (3, 1), (4, 3)]").code, VerdictCode::kUnreadable);
}

TEST(PuzzleStars, WhatCannotBeIsRefused) {
  Draw draw({.task = "stars"});
  EXPECT_THROW(
      kTask.generate(with_changes(kTask.knobs, at_level(kTask.knobs, 0), {{"side", 8}, {"stars", 2}}), draw),
      Error);
  EXPECT_THROW(
      kTask.verify({{"n", 3}, {"k", 1}, {"region_grid", {{"A", "A", "A"}, {"A", "A", "A"}, {"B", "B", "B"}}}},
                   "1"),
      Error);
}

}  // namespace
}  // namespace longhaul::puzzles::star_placement_puzzle
