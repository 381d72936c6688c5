// Reading answers: tags and shells, literals, grids, arithmetic; and the numbers of a draw.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "base/error.h"
#include "puzzles/engine/answers/answer.h"
#include "puzzles/engine/answers/arithmetic.h"
#include "puzzles/engine/answers/literal.h"
#include "puzzles/engine/answers/rational.h"
#include "puzzles/engine/draw.h"
#include "puzzles/engine/grids/grid.h"
#include "puzzles/engine/grids/regions.h"
#include "puzzles/engine/knobs.h"

namespace longhaul::puzzles {
namespace {

TEST(PuzzleAnswer, IsTheLastPairOfTagsAfterTheLastThought) {
  EXPECT_EQ(payload_of("<think>maybe <answer>1</answer></think><answer>2</answer> or <answer> 3 </answer>"),
            "3");
  EXPECT_EQ(payload_of("<answer>1</answer>"), "1");
  EXPECT_EQ(payload_of("<think>a</think><think>b <answer>9</answer></think> no more"), std::nullopt);
  EXPECT_EQ(payload_of("<answer>open"), std::nullopt);
  EXPECT_EQ(payload_of("</answer>7<answer>"), std::nullopt);
  EXPECT_EQ(payload_of("plain 7"), std::nullopt);
  EXPECT_EQ(payload_of("<answer>1</answer></answer>"), "1</answer>");
}

TEST(PuzzleAnswer, LosesTheShellAroundIt) {
  EXPECT_EQ(payload_without_tags("```python\n[[1]]\n```"), "[[1]]");
  EXPECT_EQ(payload_without_tags("first ```1``` then\n```\n2\n```"), "2");
  EXPECT_EQ(payload_without_tags("It is \\boxed{A,\\text{B}}."), "A,B");
  EXPECT_EQ(payload_without_tags("\\boxed{\\text{A},\\text{C}}"), "A,C");
  EXPECT_EQ(payload_without_tags("\\text{No}"), "No");
  EXPECT_EQ(payload_without_tags("\\boxed{\\text{a{b}\\text{c}}\\frac{1}{2}}"), "a{b}c\\frac{1}{2}");
  EXPECT_EQ(payload_without_tags("\\text{A} and \\text{B"), "\\text{A} and \\text{B");
  EXPECT_EQ(payload_without_tags("\\boxed{\\text{A,C}}"), "A,C");
  EXPECT_EQ(payload_without_tags("\\boxed{1} no, \\boxed{2}"), "2");
  EXPECT_EQ(payload_without_tags("\\boxed{1"), "\\boxed{1");
  EXPECT_EQ(payload_without_tags("［［１，２］，［３，４］］"), "[[1,2],[3,4]]");
  EXPECT_EQ(payload_without_tags("−７"), "-7");
}

TEST(PuzzleAnswer, ATooLongOneIsNone) {
  EXPECT_EQ(payload_without_tags(std::string(kLongestPayload + 1, '1')), std::nullopt);
  EXPECT_TRUE(payload_without_tags(std::string(kLongestPayload, '1')).has_value());
}

TEST(PuzzleAnswer, StrictFormatHasEachTagOnceInOrder) {
  EXPECT_TRUE(has_strict_format("  <think>a</think>\n<answer>1</answer>\n"));
  EXPECT_FALSE(has_strict_format("so <think>a</think><answer>1</answer>"));
  EXPECT_FALSE(has_strict_format("<think>a</think><answer>1</answer>."));
  EXPECT_FALSE(has_strict_format("<think>a</think><answer>0</answer><answer>1</answer>"));
  EXPECT_FALSE(has_strict_format("<think><answer>1</think></answer>"));
}

TEST(PuzzleLiteral, IsReadWithoutEvaluation) {
  const auto value = read_literal("[(1, 'a b'), {\"k\": None, x: [True,]}, -2.50, word]");
  ASSERT_TRUE(value.has_value());
  ASSERT_EQ(value->items.size(), 4u);
  EXPECT_EQ(value->items[0].items[0].integer, 1);
  EXPECT_EQ(value->items[0].items[1].text, "a b");
  EXPECT_EQ(value->items[1].kind, Literal::Kind::kDictionary);
  EXPECT_EQ(value->items[1].items[1].kind, Literal::Kind::kNull);
  EXPECT_EQ(value->items[1].items[3].items[0].integer, 1);
  EXPECT_EQ(value->items[2].kind, Literal::Kind::kDecimal);
  EXPECT_EQ(value->items[3].kind, Literal::Kind::kWord);
  for (const char* bad : {"", "[1", "[1 2]", "[1]]", "{1}", "'open", "[,]", "[1](", "__import__('os')"})
    EXPECT_FALSE(read_literal(bad)) << bad;
}

TEST(PuzzleLiteral, IsBoundedInDepthAndNumber) {
  EXPECT_TRUE(read_literal(std::string(8, '[') + std::string(8, ']')));
  EXPECT_FALSE(read_literal(std::string(10, '[') + std::string(10, ']')));
  EXPECT_FALSE(read_literal(std::string(60000, '[')));
  std::string many = "[";
  for (int i = 0; i < 9000; ++i) many += "1,";
  EXPECT_FALSE(read_literal(many + "]"));
}

TEST(PuzzleLiteral, IntegersAreWholeTexts) {
  EXPECT_EQ(read_integer(" 12 "), 12);
  EXPECT_EQ(read_integer("0"), 0);
  EXPECT_EQ(read_integer("-3"), -3);
  for (const char* bad :
       {"", "1.0", "1 2", "+1", "02", "-0", "-", "0x1", "99999999999999999999", "--1", "1e3"})
    EXPECT_FALSE(read_integer(bad)) << bad;
}

TEST(PuzzleLiteral, IntegersMayComeInGroups) {
  EXPECT_EQ(read_grouped_integer(" 1,234,567 "), 1234567);
  EXPECT_EQ(read_grouped_integer("-12,345"), -12345);
  EXPECT_EQ(read_grouped_integer("42"), 42);
  for (const char* bad : {"1,23", "1234,567", ",123", "1,2345", "1,,234", "1, 234", "1,234,", "-,123", ""})
    EXPECT_FALSE(read_grouped_integer(bad)) << bad;
}

TEST(PuzzleGrid, ComesAsListsOrAsRowsBetweenCommas) {
  const auto rows = [](std::string_view text) {
    const std::optional<CellRows> read = read_grid(text);
    return read ? read->rows : std::vector<std::vector<std::string_view>>();
  };
  using Rows = std::vector<std::vector<std::string_view>>;
  for (const char* text : {"[[1, 'X'], [2, 3]]", "((1, \"X\"), (2, 3))", "[[1 X,2 3]]", "[[1, X,], [2, 3,],]",
                           " [ [ 1 ,' X '] ,\n[2,\t3 ] ] ", "[[1, '\\X'], (2, 3)]"})
    EXPECT_EQ(rows(text), (Rows{{"1", "X"}, {"2", "3"}})) << text;
  EXPECT_EQ(rows("[[1, ''], [2]]"), (Rows{{"1", ""}, {"2"}}));  // rows may differ in length
  EXPECT_EQ(rows("[['a,b]', \"it's\"]]"), (Rows{{"a,b]", "it's"}}));
  EXPECT_EQ(rows("[[], [1]]"), (Rows{{}, {"1"}}));
  for (const char* bad :
       {"[1, 2]", "[[[1]]]", "1 2", "", "[[1]", "[[1] [2]]", "[[1]] 2", "[[1, {2: 3}]]", "[[1), (2]]"})
    EXPECT_FALSE(read_grid(bad)) << bad;
}

// The least of the texts of all ways, made one by one, is the definition.
TEST(PuzzleGrid, TheCanonicalFormIsTheLeastOfItsWays) {
  for (uint64_t index = 0; index < 200; ++index) {
    Draw draw({.task = "canonical", .index = index});
    NumberGrid grid(draw.between(1, 5), draw.between(1, 5));
    for (int64_t& cell : grid.cells)
      cell = draw.chance(30) ? kBlank : draw.between(0, draw.chance(50) ? 3 : 120);
    std::string least;
    for (const NumberGrid& way : turned(grid)) {
      if (least.empty() || grid_lines(way) < least) least = grid_lines(way);
      EXPECT_EQ(canonical_grid(way), canonical_grid(grid));
    }
    EXPECT_EQ(canonical_grid(grid), least);
  }
}

TEST(PuzzleGrid, TurnsEightWays) {
  NumberGrid grid(2, 2);
  grid.cells = {1, 2, 3, 4};
  std::set<std::vector<int64_t>> all;
  for (const NumberGrid& one : turned(grid)) all.insert(one.cells);
  // The eight orders of the corners that keep neighbours neighbours, by hand.
  const std::set<std::vector<int64_t>> expected = {{1, 2, 3, 4}, {2, 1, 4, 3}, {3, 1, 4, 2}, {1, 3, 2, 4},
                                                   {4, 3, 2, 1}, {3, 4, 1, 2}, {2, 4, 1, 3}, {4, 2, 3, 1}};
  EXPECT_EQ(all, expected);
  EXPECT_EQ(turned(NumberGrid(1, 2)).size(), 4u);
}

TEST(PuzzleArithmetic, IsExact) {
  const auto value = [](const char* text) { return read_arithmetic(text).value().value; };
  EXPECT_EQ(value("8/(3-8/3)"), (Rational{24, 1}));
  EXPECT_EQ(value("2 - 3 - 4"), (Rational{-5, 1}));
  EXPECT_EQ(value("7 / 2 / 2"), (Rational{7, 4}));
  EXPECT_EQ(value("2+3*4"), (Rational{14, 1}));
  EXPECT_THAT(read_arithmetic("(8 - 4) * 6")->numbers, ::testing::ElementsAre(8, 4, 6));
}

TEST(PuzzleRational, HasNoValueWhereItDoesNotFit) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(added({1, 6}, {1, 3}), (Rational{1, 2}));
  EXPECT_EQ(subtracted({1, 2}, {1, 2}), (Rational{0, 1}));
  EXPECT_EQ(multiplied({-2, 3}, {3, 4}), (Rational{-1, 2}));
  EXPECT_EQ(divided({1, 2}, {-3, 1}), (Rational{-1, 6}));
  EXPECT_EQ(divided({1, 2}, {0, 1}), std::nullopt);
  EXPECT_EQ(added({kMost, 1}, {1, 1}), std::nullopt);
  EXPECT_EQ(subtracted({-kMost, 1}, {1, 1}), std::nullopt);
  EXPECT_EQ(multiplied({kMost, 1}, {2, 1}), std::nullopt);
  EXPECT_EQ(multiplied({kMost, 2}, {2, 1}), (Rational{kMost, 1}));
  EXPECT_EQ(added({1, kMost}, {1, kMost - 1}), std::nullopt);
}

TEST(PuzzleRational, IsComparedAndWritten) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_LT((Rational{-1, 2}), (Rational{-1, 3}));
  EXPECT_GT((Rational{1, 2}), (Rational{1, 3}));
  // the products do not fit in 64 bits
  EXPECT_LT((Rational{kMost - 1, kMost}), (Rational{kMost, kMost - 1}));
  EXPECT_EQ(text_of({-7, 2}), "-7/2");
  EXPECT_EQ(text_of({4, 1}), "4");
}

TEST(PuzzleArithmetic, RefusesEverythingElse) {
  for (const char* bad : {"", "1 +", "-1", "(1", "1)", "2**3", "7//2", "1 2", "1/0", "1/(2-2)", "24 or(True)",
                          "1.5", "+3", "a", "()", "2(3)", "99999999999*99999999999*99999999999"})
    EXPECT_FALSE(read_arithmetic(bad)) << bad;
  EXPECT_FALSE(read_arithmetic(std::string(2000, '(') + "1" + std::string(2000, ')')));
}

TEST(PuzzleRegions, AreNarrowedUntilASearchHasShownThatOneSolutionIsLeft) {
  Draw draw({.task = "regions"});
  const Neighbours near(4, 4);
  CellSet solution, another;
  for (const int64_t cell : {0, 1, 8, 9}) solution.add(cell);
  for (const int64_t cell : {2, 3, 10, 11}) another.add(cell);
  const auto halves = [] {
    NumberGrid regions(4, 4);
    for (size_t cell = 8; cell < 16; ++cell) regions.cells[cell] = 1;
    return regions;
  };
  NumberGrid regions = halves();
  const SolveRegions unfinished = [](const NumberGrid&, SearchBudget& budget, const auto&) {
    while (budget.spend()) {
    }
  };
  EXPECT_FALSE(narrow_regions(regions, solution, near, unfinished, draw));
  EXPECT_EQ(regions, halves());
  const auto in_first = [](const NumberGrid& now, const CellSet& cells) {
    int64_t count = 0;
    cells.for_each([&](int64_t cell) { count += now.cells[static_cast<size_t>(cell)] == 0 ? 1 : 0; });
    return count;
  };
  const SolveRegions both = [&](const NumberGrid& now, SearchBudget&, const auto& found) {
    if (found(solution) && in_first(now, another) == 2) found(another);
  };
  EXPECT_TRUE(narrow_regions(regions, solution, near, both, draw));
  EXPECT_EQ(in_first(regions, solution), 2);
  EXPECT_NE(in_first(regions, another), 2);
  for (const CellSet& region : cells_of_regions(regions)) EXPECT_TRUE(near.is_connected(region));
}

TEST(PuzzleDraw, IsAFunctionOfItsName) {
  const auto numbers = [](const DrawName& name) {
    Draw draw(name);
    std::vector<uint64_t> all;
    for (int i = 0; i < 8; ++i) all.push_back(draw.below(1'000'000));
    return all;
  };
  const DrawName name{.task = "sudoku", .version = 1, .seed = 5, .index = 6, .attempt = 7};
  EXPECT_EQ(numbers(name), numbers(name));
  for (const DrawName& other :
       {DrawName{"kukurasu", 1, 5, 6, 7}, DrawName{"sudoku", 2, 5, 6, 7}, DrawName{"sudoku", 1, 6, 6, 7},
        DrawName{"sudoku", 1, 5, 7, 7}, DrawName{"sudoku", 1, 5, 6, 8}})
    EXPECT_NE(numbers(name), numbers(other));
}

// By Lemire's method from the words of the named stream, one after the other, done once more with a division.
TEST(PuzzleDraw, TakesTheWordsOfItsStreamInOrder) {
  const DrawName name{.task = "words", .version = 3, .seed = 9, .index = 4, .attempt = 2};
  Draw draw(name);
  const RandomStream stream(9, "puzzles/words/3/4/2");
  uint64_t taken = 0;
  const auto expected = [&](uint64_t bound) {
    const uint64_t range = uint64_t{1} << 32;
    for (;;) {
      const uint64_t product = stream.block(taken / 4)[taken % 4] * bound;
      ++taken;
      if (product % range >= range % bound) return product / range;
    }
  };
  for (int i = 0; i < 2000; ++i) {
    for (const uint64_t bound : {uint64_t{1}, uint64_t{6}, uint64_t{100}, uint64_t{3'000'000'000}})
      ASSERT_EQ(draw.below(bound), expected(bound)) << i << " below " << bound;
  }
  EXPECT_GT(taken, 8500u);  // three of ten of the large bound's words are passed over
  EXPECT_LT(draw.below(uint64_t{1} << 40), uint64_t{1} << 40);
  EXPECT_EQ(draw.below(6), expected(6));  // wide numbers come from elsewhere
}

TEST(PuzzleDraw, ShufflesAllWaysAlike) {
  std::map<std::vector<int>, int> seen;
  for (uint64_t i = 0; i < 6000; ++i) {
    Draw draw({.task = "t", .index = i});
    std::vector<int> items = {1, 2, 3};
    draw.shuffle(items);
    ++seen[items];
  }
  ASSERT_EQ(seen.size(), 6u);
  // five standard deviations of a binomial are 144
  for (const auto& [order, count] : seen) EXPECT_NEAR(count, 1000, 150);
}

TEST(PuzzleKnobs, LevelsAreEvenlySpacedAndChangesAreChecked) {
  static constexpr Knob kKnobs[] = {{"up", 0, 100, 10, 20, ""}, {"down", 0, 100, 75, 28, ""}};
  EXPECT_EQ(at_level(kKnobs, 0)["up"], 10);
  EXPECT_EQ(at_level(kKnobs, 3)["up"], 13);
  EXPECT_EQ(at_level(kKnobs, 10)["down"], 28);
  EXPECT_EQ(at_level(kKnobs, 5)["down"], 51);  // 75 − 23.5
  EXPECT_EQ(with_changes(kKnobs, at_level(kKnobs, 0), {{"up", 99}})["up"], 99);
  EXPECT_THROW(at_level(kKnobs, 11), Error);
  EXPECT_THROW(with_changes(kKnobs, at_level(kKnobs, 0), {{"up", 101}}), Error);
  EXPECT_THROW(with_changes(kKnobs, at_level(kKnobs, 0), {{"ub", 1}}), Error);
}

}  // namespace
}  // namespace longhaul::puzzles
