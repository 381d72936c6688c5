// Hidden digits: every rule, and what public verifiers let through.
#include "puzzles/math_path/math_path.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "puzzles/engine/answers/formula.h"
#include "puzzles/second_checkers/checkers.h"

namespace longhaul::puzzles::math_path {
namespace {

TEST(MathPath, ValuesByHand) {
  const auto value = [](const char* text) { return value_of_left(text); };
  EXPECT_EQ(value("2 + 3 * 4"), 14);
  EXPECT_EQ(value("8 / 2 / 2"), 2);
  EXPECT_EQ(value("9 - 3 - 4"), 2);
  EXPECT_EQ(value("7 % 4 * 2"), 6);
  EXPECT_EQ(value("(1 - 8) % 5"), 3);
  EXPECT_EQ(value("2 * (3 + 4)"), 14);
  for (const char* bad : {"7 / 2", "7 / 2 * 2", "4 / 0", "4 % 0", "4 % (1 - 3)", "", "1 +", "(1", "1 2"})
    EXPECT_FALSE(value(bad)) << bad;
}

TEST(MathPath, RemaindersHaveTheSignOfTheDivisor) {
  EXPECT_EQ(remainder_of({-7, 1}, {5, 1}), (Rational{3, 1}));
  EXPECT_EQ(remainder_of({7, 1}, {-5, 1}), (Rational{-3, 1}));
  EXPECT_EQ(remainder_of({10, 1}, {-5, 1}), (Rational{0, 1}));
  EXPECT_FALSE(remainder_of({1, 2}, {5, 1}));
}

TEST(MathPath, WhatPublicVerifiersLetThroughIsRefused) {
  const nlohmann::json given = {{"ref_expr", "3 * (4 + 2) / 2 = 9"}, {"query_expr", "? * (? + 2) / ? = 9"}};
  const auto code = [&](const char* answer) { return kTask.verify(given, answer).code; };
  EXPECT_EQ(code("[[3 * (4 + 2) / 2 = 9]]"), VerdictCode::kAccepted);
  EXPECT_EQ(code("9*(0+2)/2=9"), VerdictCode::kAccepted);  // another solution
  EXPECT_EQ(code("[[3 * (4 + 2) / 1 = 9]]"), VerdictCode::kRuleBroken);
  EXPECT_EQ(code("[[3 * (4 + 2) / 1 = 9 or(True)]]"), VerdictCode::kUnreadable);
  EXPECT_EQ(code("[[(3 * 4) + 2 / 2 = 9]]"), VerdictCode::kShape);
  EXPECT_EQ(code("[[3 * 4 + (2 / 2) = 9]]"), VerdictCode::kGivenChanged);
  EXPECT_EQ(code("[[3 * (4 + 2) / 2 = 8]]"), VerdictCode::kGivenChanged);
  EXPECT_EQ(code("[[3 * (4 + 3) / 2 = 9]]"), VerdictCode::kGivenChanged);
  EXPECT_EQ(code("[[33 * (4 + 2) / 2 = 9]]"), VerdictCode::kShape);
  const nlohmann::json inexact = {{"query_expr", "? / ? * 2 = 7"}};
  EXPECT_EQ(kTask.verify(inexact, "[[7 / 2 * 2 = 7]]").code, VerdictCode::kRuleBroken);  // 3.5 on the way
}

TEST(MathPath, EveryFillingIsJudgedAsOnPaper) {
  for (const char* query :
       {"? + ? * ? = 8", "? / ? - ? = 2", "? % ? + ? = 3", "(? - ?) % ? = 1", "? * (? - ?) = -6"}) {
    int64_t accepted = 0, plain = 0;
    for (int n = 0; n < 1000; ++n) {
      std::string answer = query;
      int rest = n;
      for (char& c : answer) {
        if (c != '?') continue;
        c = static_cast<char>('0' + rest % 10);
        rest /= 10;
      }
      const nlohmann::json given = {{"query_expr", query}};
      const bool ours = kTask.verify(given, answer).accepted(), theirs = plain_math_path(given, answer);
      EXPECT_EQ(ours, theirs) << answer;
      accepted += ours ? 1 : 0;
      plain += theirs ? 1 : 0;
    }
    EXPECT_GT(accepted, 3) << query;
  }
}

}  // namespace
}  // namespace longhaul::puzzles::math_path
