// Boolean expressions: values by hand, the answers that are read, and the balance of what is drawn.
#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "base/error.h"
#include "puzzles/boolean_expressions/boolean_expressions.h"
#include "puzzles/boolean_expressions/facts.h"
#include "puzzles/engine/answers/answer.h"
#include "puzzles/maker.h"

namespace longhaul::puzzles {
namespace {

using boolean_expressions::expression_of;
using boolean_expressions::value_of;

nlohmann::json tree(const char* text) { return nlohmann::json::parse(text); }

TEST(BooleanExpressions, HaveTheirValuesByHand) {
  // 2/3, exactly
  EXPECT_TRUE(value_of(tree(R"(["compare", "==", false, ["-", 1, ["/", 1, 3]], ["-", 2, ["/", 4, 3]]])")));
  EXPECT_FALSE(value_of(tree(R"(["compare", "<", false, ["*", -2, -3], 6])")));
  EXPECT_TRUE(value_of(tree(R"(["compare", "<=", true, ["*", -2, -3], 6])")));
  EXPECT_FALSE(value_of(tree(R"(["not", 3, true])")));
  EXPECT_TRUE(value_of(tree(R"(["not", 2, true])")));
  EXPECT_FALSE(value_of(tree(R"(["and", true, true, false])")));
  EXPECT_TRUE(value_of(tree(R"(["or", false, false, true])")));
  EXPECT_TRUE(value_of(tree(R"(["fact", 0, 1, 1])")));
  EXPECT_FALSE(value_of(tree(R"(["fact", 0, 1, 2])")));
  EXPECT_TRUE(value_of(tree(R"(["fact", 1, 0, 1])")));  // two countries in Africa
}

TEST(BooleanExpressions, RelationsByHand) {
  const auto value = [](const char* relation, int a, int b) {
    return value_of({"compare", relation, false, a, b});
  };
  for (const auto& [relation, less, equal, greater] :
       {std::tuple("<", true, false, false), std::tuple("<=", true, true, false),
        std::tuple(">", false, false, true), std::tuple(">=", false, true, true),
        std::tuple("==", false, true, false), std::tuple("!=", true, false, true)}) {
    EXPECT_EQ(value(relation, -3, 2), less) << relation;
    EXPECT_EQ(value(relation, 2, 2), equal) << relation;
    EXPECT_EQ(value(relation, 2, -3), greater) << relation;
  }
}

TEST(BooleanExpressions, AreWrittenInBothLanguages) {
  const nlohmann::json one =
      tree(R"(["and", ["not", 2, ["fact", 0, 1, 1]], ["compare", ">=", true, ["-", -3, ["/", 1, -2]], 4]])");
  EXPECT_EQ(expression_of(one, Language::kEnglish),
            "(not not (Tokyo is the capital of Japan)) and (((-3) - (1 / (-2))) is at least (4))");
  EXPECT_EQ(expression_of(one, Language::kChinese),
            "(not not (日本的首都是东京)) and (((-3) - (1 / (-2))) 不小于 (4))");
}

TEST(BooleanExpressions, ATreeMayStandAsItsText) {
  const char* text = R"(["or", ["not", 1, ["fact", 0, 1, 1]], ["compare", "<", false, ["*", -2, 3], 6]])";
  EXPECT_TRUE(value_of(nlohmann::json(text)));
  EXPECT_EQ(expression_of(nlohmann::json(text), Language::kEnglish),
            expression_of(tree(text), Language::kEnglish));
  for (const char* bad : {"", "true false", "[\"or\", true]", R"(["or", true, true)", R"(["not", 1])",
                          R"(["compare", "<", false, 1, 2, 3])", R"(["fact", 0, 1])", "[or, true, true]"})
    EXPECT_THROW(value_of(nlohmann::json(bad)), Error) << bad;
}

TEST(BooleanExpressions, WhatIsNoTreeIsRefused) {
  for (const char* bad : {"[]", "1", "\"x\"", R"(["xor", true, true])", R"(["not", 0, true])",
                          R"(["compare", "<", 1, 2, 3])", R"(["compare", "<", false, ["/", 1, 0], 3])",
                          R"(["compare", "<>", false, 1, 3])", R"(["compare", "+", false, 1, 3])",
                          R"(["fact", 9, 0, 0])", R"(["fact", 0, 0, 5000])", R"(["and", true, 7])"})
    EXPECT_THROW(value_of(tree(bad)), Error) << bad;
}

TEST(BooleanExpressions, ThereAreManyFactsOfEachKindAndNoneTwice) {
  std::set<std::string> sentences;
  int64_t count = 0;
  for (int64_t relation = 0; relation < 4; ++relation) {
    for (int64_t subject = 0; subject < boolean_expressions::fact_counts()[static_cast<size_t>(relation)];
         ++subject, ++count) {
      sentences.insert(boolean_expressions::sentence_of({relation, subject, subject}, Language::kEnglish));
      sentences.insert(boolean_expressions::sentence_of({relation, subject, subject}, Language::kChinese));
    }
  }
  EXPECT_GE(count, 200);
  EXPECT_EQ(sentences.size(), static_cast<size_t>(2 * count));
}

TEST(BooleanExpressions, AnswersAreSetsOfLetters) {
  const TaskEntry& task = boolean_expressions::kTask;
  const nlohmann::json given = {{"options", {true, false, true}}};
  for (const char* good : {"A,C", "C, A", "a c", "A,C,A"})
    EXPECT_TRUE(task.verify(given, good).accepted()) << good;
  for (const char* bad : {"A", "A,B,C", "A,D", "AC", "A,,C", "B", "", "A and C", "A,C."})
    EXPECT_FALSE(task.verify(given, bad).accepted()) << bad;
  EXPECT_TRUE(task.verify(given, payload_of("<answer>\\boxed{\\text{A,C}}</answer>").value()).accepted());
}

TEST(BooleanExpressions, NoAnswerIsCommonAndEachLetterIsTrueHalfTheTime) {
  const TaskEntry& task = boolean_expressions::kTask;
  std::map<std::string, int> answers;
  int first = 0;
  for (int64_t index = 0; index < 200; ++index) {
    const std::string solution = make_puzzle(task, at_level(task.knobs, 3), 1, index)->puzzle.solution;
    ++answers[solution];
    first += solution.find('A') != std::string::npos ? 1 : 0;
  }
  for (const auto& [answer, count] : answers) EXPECT_LE(count, 60) << answer;
  EXPECT_GT(first, 70);
  EXPECT_LT(first, 140);
}

}  // namespace
}  // namespace longhaul::puzzles
