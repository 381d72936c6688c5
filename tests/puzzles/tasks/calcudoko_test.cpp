// Calcudoko: what its cages make, and how many solutions there are.
#include "puzzles/calcudoko/calcudoko.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "puzzles/maker.h"
#include "puzzles/second_checkers/checkers.h"

namespace longhaul::puzzles::calcudoko {
namespace {

nlohmann::json calcudoko_by_hand() {
  return {{"grid_size", 3},
          {"regions",
           {{{"cells", {"(1,1)", "(2,1)"}}, {"target", 2}, {"operator", "÷"}},
            {{"cells", {"(1,2)", "(1,3)", "(2,2)"}}, {"target", 6}, {"operator", "*"}},
            {{"cells", {"(2,3)", "(3,3)"}}, {"target", 2}, {"operator", "-"}},
            {{"cells", {"(3,1)", "(3,2)"}}, {"target", 5}, {"operator", "+"}}}}};
}

TEST(PuzzleCalcudoko, CagesMakeWhatTheirSignSays) {
  EXPECT_EQ(made_of(Sign::kSum, {2, 3, 4}), 9);
  EXPECT_EQ(made_of(Sign::kProduct, {2, 3, 4}), 24);
  EXPECT_EQ(made_of(Sign::kDifference, {2, 5}), 3);
  EXPECT_EQ(made_of(Sign::kQuotient, {2, 6}), 3);
  EXPECT_EQ(made_of(Sign::kQuotient, {4, 6}), std::nullopt);  // not rounded down
  EXPECT_EQ(made_of(Sign::kDifference, {1, 2, 3}), std::nullopt);
}

TEST(PuzzleCalcudoko, AnswersByHand) {
  // 3 * 2 * 1 stands around the corner and 3 + 2 at the bottom; the difference of 2 is 3 - 1, which leaves
  // one square.
  const nlohmann::json given = calcudoko_by_hand();
  EXPECT_TRUE(kTask.verify(given, "[[1, 3, 2], [2, 1, 3], [3, 2, 1]]").accepted());
  EXPECT_TRUE(kTask.verify(given, "[[1 3 2,2 1 3,3 2 1]]").accepted());
  EXPECT_EQ(kTask.verify(given, "[[2, 3, 1], [1, 2, 3], [3, 1, 2]]").code, VerdictCode::kRuleBroken);
  SearchBudget budget;
  EXPECT_EQ(kTask.count_solutions(given, 100, budget).found, 1);
}

TEST(PuzzleCalcudoko, NumbersOfACageAreDifferent) {
  // Both 1s stand in one cage, in different rows and columns: a Latin square with the right sum, and no
  // answer.
  const nlohmann::json given = {{"grid_size", 2},
                                {"regions",
                                 {{{"cells", {"(1,1)", "(2,2)"}}, {"target", 2}, {"operator", "+"}},
                                  {{"cells", {"(1,2)", "(2,1)"}}, {"target", 4}, {"operator", "+"}}}}};
  EXPECT_EQ(kTask.verify(given, "[[1, 2], [2, 1]]").code, VerdictCode::kRuleBroken);
  SearchBudget budget;
  EXPECT_EQ(kTask.count_solutions(given, 100, budget).found, 0);
}

TEST(PuzzleCalcudoko, IsCountedAsByTryingAll) {
  const std::vector<NumberGrid> all = plain_latin_squares(4);
  int64_t several = 0;
  for (uint64_t i = 0; i < 60; ++i) {  // each row in two halves
    Draw draw({.task = "halves", .index = i});
    const NumberGrid& square = all[draw.below(all.size())];
    nlohmann::json given = {{"grid_size", 4}, {"regions", nlohmann::json::array()}};
    for (int64_t row = 0; row < 4; ++row) {
      for (int64_t column = 0; column < 4; column += 2) {
        const int64_t a = std::max(square.at(row, column), square.at(row, column + 1)),
                      b = std::min(square.at(row, column), square.at(row, column + 1));
        std::vector<std::pair<std::string, int64_t>> signs = {{"+", a + b}, {"-", a - b}, {"*", a * b}};
        if (a % b == 0) signs.emplace_back("÷", a / b);
        const auto& [sign, target] = draw.pick(signs);
        given["regions"].push_back(
            {{"cells",
              {fmt::format("({},{})", row + 1, column + 1), fmt::format("({},{})", row + 1, column + 2)}},
             {"target", target},
             {"operator", sign}});
      }
    }
    const auto plain = std::ranges::count_if(
        all, [&](const NumberGrid& one) { return plain_calcudoko(given, grid_payload(one)); });
    SearchBudget budget;
    EXPECT_EQ(kTask.count_solutions(given, 1000, budget).found, plain) << given.dump();
    several += plain > 1 ? 1 : 0;
  }
  EXPECT_GT(several, 20);
}

TEST(PuzzleCalcudoko, ShortRowsAreNotFilledUp) {
  const nlohmann::json given = calcudoko_by_hand();
  EXPECT_EQ(kTask.verify(given, "[[1, 2, 3], [2, 3], [3, 1, 2]]").code, VerdictCode::kUnreadable);
  EXPECT_EQ(kTask.verify(given, "[[1, 2], [2, 1]]").code, VerdictCode::kShape);
  EXPECT_EQ(kTask.verify(given, "[[1, 2, 3], [1, 2, 3], [1, 2, 3]]").code, VerdictCode::kRuleBroken);
}

TEST(PuzzleCalcudoko, GivensAreChecked) {
  nlohmann::json given = calcudoko_by_hand();
  given["regions"][0]["cells"] = {"(1,1)", "(1,1)"};
  EXPECT_THROW(kTask.verify(given, "1"), Error);
  given = calcudoko_by_hand();
  given["regions"][0]["operator"] = "%";
  EXPECT_THROW(kTask.verify(given, "1"), Error);
  given = calcudoko_by_hand();
  given["regions"][0]["cells"] = {"(1,1)", "(4,1)"};
  EXPECT_THROW(kTask.verify(given, "1"), Error);
  given = calcudoko_by_hand();
  given["regions"].erase(3);
  EXPECT_THROW(kTask.verify(given, "1"), Error);
}

}  // namespace
}  // namespace longhaul::puzzles::calcudoko
