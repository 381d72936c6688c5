// New operators by hand: precedences, associativity, conditions, and the ways to write an answer.
#include "puzzles/operation/operation.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace longhaul::puzzles::operation {
namespace {

nlohmann::json with(const char* expression) {
  return {{"symbols",
           {{{"symbol", "△"}, {"precedence", 3}, {"formula", "x * 2 + y"}},
            {{"symbol", "◇"},
             {"precedence", 1},
             {"formula", "|x - y| △ 1"},
             {"condition", "x_greater"},
             {"otherwise", "x / y"}}}},
          {"expression", expression}};
}

TEST(Operation, ValuesByHand) {
  const auto value = [](const char* expression) { return value_of_task(read_given(with(expression))); };
  EXPECT_EQ(value("3 △ 4"), (Rational{10, 1}));
  EXPECT_EQ(value("3 △ 4 * 2"), (Rational{20, 1}));  // △ before *
  EXPECT_EQ(value("2 * 3 △ 4"), (Rational{20, 1}));
  EXPECT_EQ(value("1 △ 2 △ 3"), (Rational{11, 1}));    // (1 △ 2) △ 3
  EXPECT_EQ(value("5 ◇ 2"), (Rational{7, 1}));         // |5 - 2| △ 1
  EXPECT_EQ(value("2 ◇ 5"), (Rational{2, 5}));         // otherwise
  EXPECT_EQ(value("7 / 2 ◇ 2"), (Rational{7, 4}));     // 7/2 is no whole number, although it is greater
  EXPECT_EQ(value("9 - 3 ◇ 2"), (Rational{9, 1}));     // (9 - 3) ◇ 2: equal precedence from left to right
  EXPECT_EQ(value("2 ** 3 ** 2"), (Rational{64, 1}));  // (2 ** 3) ** 2
  EXPECT_EQ(value("(1 - 8) % 5"), (Rational{3, 1}));
  EXPECT_FALSE(value("1 / (2 - 2)"));
  EXPECT_FALSE(value("2 ** 7"));
  EXPECT_FALSE(value("7 % (1 / 2)"));
  EXPECT_FALSE(value("0 ** 0"));
}

TEST(Operation, ConditionsByHand) {
  const auto holds = [](std::string_view name, int64_t x, int64_t y) {
    for (const Condition& condition : conditions()) {
      if (condition.name == name) return condition.holds(x, y);
    }
    throw std::out_of_range(std::string(name));
  };
  EXPECT_EQ(conditions().size(), 15u);
  EXPECT_TRUE(holds("both_even", 2, -4) && !holds("both_even", 2, 3) && !holds("both_even", 3, 2));
  EXPECT_TRUE(holds("both_odd", -3, 5) && !holds("both_odd", 3, 4));
  EXPECT_TRUE(holds("x_even", 0, 1) && !holds("x_even", -1, 0) && holds("x_odd", -1, 0) &&
              !holds("x_odd", 0, 1));
  EXPECT_TRUE(holds("y_even", 1, 0) && !holds("y_even", 0, -1) && holds("y_odd", 0, -1) &&
              !holds("y_odd", 1, 0));
  EXPECT_TRUE(holds("x_greater", 2, 1) && !holds("x_greater", 1, 1) && holds("x_less", 1, 2) &&
              !holds("x_less", 1, 1));
  EXPECT_TRUE(holds("equal", 1, 1) && !holds("equal", 1, 2));
  EXPECT_TRUE(holds("x_three", -3, 1) && !holds("x_three", 1, 3) && holds("y_three", 1, 0) &&
              !holds("y_three", 3, 1));
  EXPECT_TRUE(holds("x_five", 10, 1) && !holds("x_five", 1, 5) && holds("y_five", 1, -5) &&
              !holds("y_five", 5, 1));
  EXPECT_TRUE(holds("sum_even", -1, 1) && !holds("sum_even", 1, 2) && holds("sum_odd", -1, 2) &&
              !holds("sum_odd", 1, -1));
}

TEST(Operation, AnswersMayBeFractionsOrDecimals) {
  const nlohmann::json given = with("2 - 7 / 3 △ 1");  // 2 - 7 / 7
  EXPECT_TRUE(kTask.verify(given, "1").accepted());
  const nlohmann::json third = with("3 - 10 / 3");  // -1/3
  const auto code = [&](const char* answer) { return kTask.verify(third, answer).code; };
  for (const char* right : {"-1/3", " -1/3 ", "-2/6", "-\\frac{1}{3}", "-\\dfrac{1}{3}", "-0.33333333"})
    EXPECT_EQ(code(right), VerdictCode::kAccepted) << right;
  for (const char* wrong : {"1/3", "-0.333", "-1", "0", "-1/4", "0.33333333"})
    EXPECT_EQ(code(wrong), VerdictCode::kRuleBroken) << wrong;
  for (const char* bad : {"", "-1/0", "--1/3", "-1/-3", "-1/3/1", "1e3", ".", "-1/3 or(True)", "x"})
    EXPECT_EQ(code(bad), VerdictCode::kUnreadable) << bad;
}

TEST(Operation, WhatIsNoFormulaIsRefused) {
  EXPECT_THROW(read_given(with("3 ? 4")), Error);
  EXPECT_THROW(read_given(with("3 △ x")), Error);
  nlohmann::json given = with("1 △ 2");
  given["symbols"][0]["formula"] = "x ◇ y";  // is defined after it
  EXPECT_THROW(read_given(given), Error);
  given = with("1 △ 2");
  given["symbols"][1]["condition"] = "always";
  EXPECT_THROW(read_given(given), Error);
}

TEST(Operation, IsOnePuzzleWithOtherSymbols) {
  const auto form = [](std::string text) { return kTask.canonical(nlohmann::json::parse(text)); };
  const std::string one =
      R"({"symbols": [{"symbol": "△", "precedence": 3, "formula": "x + y"}], "expression": "1 △ 2"})";
  const std::string other =
      R"({"symbols": [{"symbol": "◎", "precedence": 3, "formula": "x + y"}], "expression": "1 ◎ 2"})";
  const std::string third =
      R"({"symbols": [{"symbol": "◎", "precedence": 3, "formula": "x + y"}], "expression": "1 + 2"})";
  EXPECT_EQ(form(one), form(other));
  EXPECT_NE(form(one), form(third));
}

}  // namespace
}  // namespace longhaul::puzzles::operation
