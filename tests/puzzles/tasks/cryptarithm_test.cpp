// Cryptarithms: known ones, and solutions counted by trying every digit for every letter.
#include "puzzles/cryptarithm/cryptarithm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "puzzles/engine/draw.h"
#include "puzzles/second_checkers/checkers.h"

namespace longhaul::puzzles::cryptarithm {
namespace {

int64_t counted(const char* text) {
  SearchBudget budget;
  const SolutionCount count = count_solutions(read_equation(text).value(), 1000, budget);
  EXPECT_TRUE(count.known);
  return count.found;
}

TEST(Cryptarithm, KnownOnesHaveOneSolution) {
  const struct {
    const char *equation, *solution;
  } kKnown[] = {{"SEND + MORE = MONEY", "9567 + 1085 = 10652"},  // H. E. Dudeney, 1924
                {"FORTY + TEN + TEN = SIXTY", "29786 + 850 + 850 = 31486"},
                {"DONALD + GERALD = ROBERT", "526485 + 197485 = 723970"}};
  for (const auto& known : kKnown) {
    EXPECT_EQ(counted(known.equation), 1) << known.equation;
    EXPECT_TRUE(kTask.verify({{"equation", known.equation}}, known.solution).accepted()) << known.equation;
  }
}

// Every assignment of digits to the letters, judged by the second checker.
int64_t plain_count(const std::string& equation) {
  std::string letters;
  for (const char c : equation) {
    if (c >= 'A' && c <= 'Z' && letters.find(c) == std::string::npos) letters += c;
  }
  int64_t count = 0, all = 1;
  for (size_t i = 0; i < letters.size(); ++i) all *= 10;
  for (int64_t n = 0; n < all; ++n) {
    std::string text = equation;
    int64_t rest = n;
    for (const char letter : letters) {
      std::ranges::replace(text, letter, static_cast<char>('0' + rest % 10));
      rest /= 10;
    }
    count += plain_cryptarithm({{"equation", equation}}, text) ? 1 : 0;
  }
  return count;
}

TEST(Cryptarithm, SolutionsAreCountedAsByTryingAll) {
  for (const char* equation :
       {"A + B = C", "AB + A = BC", "AB - C = D", "A * B = CA", "AB * A = CCA", "AA - BB + B = C",
        "A * B - C = D", "AB + BA = CBC", "ABC - CB = DA", "A + B * C = AD", "A - B = C", "AB = BA", "A = A"})
    EXPECT_EQ(counted(equation), plain_count(equation)) << equation;
  for (uint64_t i = 0; i < 20; ++i) {
    Draw draw({.task = "equations", .index = i});
    std::string equation;
    for (int word = 0; word < 3; ++word) {
      if (word > 0) equation += word == 2 ? '=' : "+-*"[draw.below(3)];
      for (int64_t letters = draw.between(1, 3); letters > 0; --letters)
        equation += static_cast<char>('A' + draw.below(4));
    }
    EXPECT_EQ(counted(equation.c_str()), plain_count(equation)) << equation;
  }
}

TEST(Cryptarithm, EveryRuleIsJudged) {
  const nlohmann::json given = {{"equation", "AB + A = CC"}};  // 21 + 2 is no CC; 87 + 8 is none either
  const auto code = [&](const char* answer) { return kTask.verify(given, answer).code; };
  // 1 for A and for C
  EXPECT_EQ(code("10 + 1 = 11"), VerdictCode::kRuleBroken);
  // a digit too many
  EXPECT_EQ(code("98 + 9 = 107"), VerdictCode::kShape);
  // two digits for A
  EXPECT_EQ(code("21 + 3 = 44"), VerdictCode::kRuleBroken);
  // makes 23
  EXPECT_EQ(code("21 + 2 = 33"), VerdictCode::kRuleBroken);
  // begins with 0
  EXPECT_EQ(kTask.verify({{"equation", "AB + CD = CE"}}, "05 + 12 = 17").code, VerdictCode::kRuleBroken);
  EXPECT_EQ(code("21 - 2 = 33"), VerdictCode::kShape);
  EXPECT_EQ(code("A = 2, B = 1, C = 3"), VerdictCode::kUnreadable);
  EXPECT_EQ(code("2 1 + 2"), VerdictCode::kUnreadable);
}

TEST(Cryptarithm, IsOnePuzzleWithOtherLettersAndInAnotherOrder) {
  const auto form = [](const char* equation) { return kTask.canonical({{"equation", equation}}); };
  EXPECT_EQ(form("SEND + MORE = MONEY"), form("ABCD + EFGB = EFCBH"));
  EXPECT_EQ(form("SEND + MORE = MONEY"), form("MORE + SEND = MONEY"));
  EXPECT_EQ(form("A * BC + D = EF"), form("D + BC * A = EF"));
  EXPECT_NE(form("A * BC + C = EF"), form("A + BC * C = EF"));
  EXPECT_NE(form("AB - CD = A"), form("CD - AB = A"));
}

TEST(Cryptarithm, WhatIsTooLargeIsNoPuzzle) {
  for (const char* bad : {"", "A + B", "A + = B", "A = B = C", "AB / C = D", "ab + c = d",
                          "ABCDEFGHIJK + A = B", "A+A+A+A+A+A=B", "AAAAAAAAA * AAAAAAAAA = B"})
    EXPECT_FALSE(read_equation(bad)) << bad;
}

}  // namespace
}  // namespace longhaul::puzzles::cryptarithm
