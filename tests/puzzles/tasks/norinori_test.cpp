// Norinori: solutions are counted by trying all sets of cells of small grids.
#include "puzzles/norinori/norinori.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "puzzles/engine/grids/regions.h"
#include "puzzles/maker.h"
#include "puzzles/second_checkers/checkers.h"

namespace longhaul::puzzles::norinori {
namespace {

// All sets of cells of a grid of side 4 in which every cell has one neighbour: dominoes that do not touch.
std::vector<uint32_t> all_dominoes() {
  std::vector<uint32_t> all;
  for (uint32_t set = 0; set < 1U << 16; ++set) {
    bool fits = true;
    for (uint32_t cell = 0; cell < 16 && fits; ++cell) {
      if ((set >> cell & 1) == 0) continue;
      uint32_t partners = cell >= 4 ? set >> (cell - 4) & 1 : 0;
      partners += cell < 12 ? set >> (cell + 4) & 1 : 0;
      partners += cell % 4 > 0 ? set >> (cell - 1) & 1 : 0;
      partners += cell % 4 < 3 ? set >> (cell + 1) & 1 : 0;
      fits = partners == 1;
    }
    if (fits) all.push_back(set);
  }
  return all;
}

TEST(PuzzleNorinori, IsCountedAsByTryingAll) {
  const std::vector<uint32_t> all = all_dominoes();
  const Neighbours near(4, 4);
  int64_t several = 0;
  for (uint64_t i = 0; i < 150; ++i) {
    Draw draw({.task = "regions", .index = i});
    NumberGrid regions(4, 4, kBlank);
    std::vector<int64_t> seeds = near.all().cells();
    draw.shuffle(seeds);
    CellSet outside;
    for (int64_t n = draw.between(0, 2); n > 0; --n) outside.add(seeds[static_cast<size_t>(10 + n)]);
    for (int64_t region = 0; region < 3; ++region)
      regions.cells[static_cast<size_t>(seeds[static_cast<size_t>(region)])] = region;
    if (!grow_regions(regions, near, outside, draw)) continue;
    const auto plain = std::ranges::count_if(all, [&](uint32_t set) {
      std::array<int, 3> counts{};
      for (size_t cell = 0; cell < 16; ++cell) {
        const bool covered = (set >> cell & 1) != 0;
        if (regions.cells[cell] == kBlank && !covered) return false;
        if (regions.cells[cell] != kBlank && covered) ++counts[static_cast<size_t>(regions.cells[cell])];
      }
      return counts == std::array<int, 3>{2, 2, 2};
    });
    SearchBudget budget;
    const nlohmann::json given = {{"region_grid", letters_json(region_letters(regions))}};
    EXPECT_EQ(kTask.count_solutions(given, 10000, budget).found, plain) << given.dump();
    several += plain > 1 ? 1 : 0;
  }
  EXPECT_GT(several, 20);
}

TEST(PuzzleNorinori, AnswersByHand) {
  // The marked cells are one domino; A and B have one each, and C has none.
  const nlohmann::json given = {
      {"region_grid", {{"X", "X", "A", "A"}, {"C", "A", "A", "A"}, {"C", "C", "B", "B"}}}};
  EXPECT_FALSE(kTask.verify(given, "[[(1, 1), (1, 2)]]").accepted());
  EXPECT_EQ(kTask.verify(given, "[[(1, 1), (1, 2)], [(1, 3), (1, 4)], [(3, 3), (3, 4)]]").code,
            VerdictCode::kRuleBroken);
  EXPECT_EQ(kTask.verify(given, "[[(1, 1), (1, 3)]]").code, VerdictCode::kRuleBroken);
  EXPECT_EQ(kTask.verify(given, "[[(1, 1), (0, 1)]]").code, VerdictCode::kShape);
  EXPECT_EQ(kTask.verify(given, "[(1, 1), (1, 2)]").code, VerdictCode::kUnreadable);
}

TEST(PuzzleNorinori, ARegionWithoutCoveredCellsIsNoAnswer) {
  for (int64_t i = 0; i < 10; ++i) {  // only the marked cells are covered, which public verifiers take
    const KnobValues knobs = with_changes(kTask.knobs, at_level(kTask.knobs, 0), {{"marked_percent", 15}});
    const nlohmann::json given = make_puzzle(kTask, knobs, 3, i)->puzzle.given;
    std::string cells;
    for (size_t r = 0; r < 4; ++r) {
      for (size_t c = 0; c < 4; ++c) {
        if (given["region_grid"][r][c] == "X")
          cells += fmt::format("{}({}, {})", cells.empty() ? "" : ", ", r + 1, c + 1);
      }
    }
    EXPECT_FALSE(kTask.verify(given, "[[" + cells + "]]").accepted());
    EXPECT_FALSE(kTask.verify(given, "[]").accepted());
  }
}

TEST(PuzzleNorinori, DominoesMayMeetAtCorners) {
  const nlohmann::json given = {{"region_grid", {{"A", "A", "B", "B"}, {"A", "B", "B", "B"}}}};
  EXPECT_TRUE(kTask.verify(given, "[[(1, 1), (1, 2)], [(2, 3), (2, 4)]]").accepted());
  EXPECT_TRUE(kTask.verify(given, "[[(2, 4), (2, 3)], [(1, 2), (1, 1)]]").accepted());
  EXPECT_EQ(kTask.verify(given, "[[(1, 1), (1, 2)], [(1, 3), (1, 4)]]").code, VerdictCode::kRuleBroken);
  EXPECT_EQ(kTask.verify(given, "[[(1, 1), (1, 2)], [(1, 1), (1, 2)]]").code, VerdictCode::kRuleBroken);
}

}  // namespace
}  // namespace longhaul::puzzles::norinori
