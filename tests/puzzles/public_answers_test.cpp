// Public records that hold the right answer and no puzzle: ours without their metadata, and some by hand.
#include "puzzles/public_answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "puzzles/records.h"
#include "puzzles/support.h"
#include "puzzles/tasks.h"

namespace longhaul::puzzles {
namespace {

using ::testing::HasSubstr;

// As a public training set has it: metadata of other keys, or of none.
ReadRecord record_of(std::string_view task, const nlohmann::json& answer) {
  const nlohmann::json game = {{"question", "?"}, {"answer", answer}, {"metadata", {{"seed", 1}}}};
  return read_game(task, game.dump(), "row 1");
}

bool accepts(const ReadRecord& record, const std::string& answer) {
  return verdict_on(record, "<think></think><answer>" + answer + "</answer>").accepted();
}

// Zebra puzzles too, whose table is the answer and makes a puzzle of its own.
bool holds_answers_alone(const TaskEntry& task) {
  return public_answer_of(task.key) != nullptr || task.key == "zebra_puzzle";
}

TEST(PublicAnswers, AreThoseOfTheirRecords) {
  int64_t tried = 0;
  for (const TaskEntry* task : tasks()) {
    if (!holds_answers_alone(*task)) continue;
    const auto solution = [&](int64_t index) {
      return make_puzzle(*task, at_level(task->knobs, 3), 8, index).value().puzzle.solution;
    };
    for (int64_t index = 0; index < 4; ++index) {
      const std::string right = solution(index);
      const ReadRecord record = record_of(task->key, right);
      EXPECT_TRUE(accepts(record, right)) << task->key << ": " << right;
      EXPECT_FALSE(accepts(record, "")) << task->key;
      EXPECT_FALSE(accepts(record, "no such answer, at all")) << task->key;
      const std::string other = solution(index + 1);
      EXPECT_EQ(accepts(record, other), other == right) << task->key << ": " << other << " for " << right;
      ++tried;
    }
    const Error error = error_of([&] { record_of(task->key, nlohmann::json::object()); });
    EXPECT_EQ(error.code(), ExitCode::kData);
    EXPECT_THAT(error.what(), HasSubstr("\"answer\"")) << task->key;
    EXPECT_EQ(error.fields().where, "row 1") << task->key;
    EXPECT_EQ(error.fields().found, "{}") << task->key;
  }
  EXPECT_EQ(tried, 14 * 4);
}

TEST(PublicAnswers, WithAPuzzleAreNotLookedAt) {
  const TaskEntry& task = task_named("object_counting");
  const MadePuzzle made = make_puzzle(task, at_level(task.knobs, 1), 3, 0).value();
  const nlohmann::json game = {{"question", "?"}, {"answer", "-5"}, {"metadata", made.puzzle.given}};
  const ReadRecord record = read_game(task.key, game.dump(), "row");
  EXPECT_EQ(record.compared, nullptr);
  EXPECT_TRUE(accepts(record, made.puzzle.solution));
  EXPECT_FALSE(accepts(record, "-5"));
}

TEST(PublicAnswers, MayBeWrittenInOtherWays) {
  const auto same = [](std::string_view task, const nlohmann::json& right, const std::string& answer) {
    return accepts(record_of(task, right), answer);
  };
  EXPECT_TRUE(same("boolean_expressions", "A,C", "\\boxed{\\text{C},\\text{A}}"));
  EXPECT_FALSE(same("boolean_expressions", "A,C", "A"));
  EXPECT_FALSE(same("boolean_expressions", "A,C", "A,C,C"));
  EXPECT_TRUE(same("buggy_tables", "12.30", "12.3"));
  EXPECT_TRUE(same("buggy_tables", 12.25, "12.25"));
  EXPECT_FALSE(same("buggy_tables", "12.30", "12.31"));
  EXPECT_TRUE(same("cipher", "[[HELLO]]", "hello"));
  EXPECT_FALSE(same("cipher", "[[HELLO]]", "[[HELL]]"));
  EXPECT_TRUE(same("cryptarithm", "12 + 3 = 15", "12+3=15"));
  EXPECT_FALSE(same("cryptarithm", "12 + 3 = 15", "15=12+3"));
  EXPECT_TRUE(same("object_counting", 1234, "1,234"));
  EXPECT_TRUE(same("object_properties", "unknown", "Unknown"));
  EXPECT_FALSE(same("object_properties", "7", "unknown"));
  EXPECT_TRUE(same("operation", "0.3333333333", "\\frac{1}{3}"));
  EXPECT_TRUE(same("operation", "1/3", "0.333333333"));
  EXPECT_FALSE(same("operation", "1/3", "0.33"));
  EXPECT_TRUE(same("space_reasoning", "Tulip", "the tulip"));
  EXPECT_TRUE(same("space_reasoning_tree", "a vase, sofa", "sofa, vase"));
  EXPECT_FALSE(same("space_reasoning_tree", "vase, sofa", "sofa"));
  EXPECT_TRUE(same("web_of_lies", "yes, no", "**Yes, No**"));
  EXPECT_FALSE(same("web_of_lies", "yes, no", "no, yes"));
  EXPECT_TRUE(same("word_sorting", "b, a", "[\"B\", \"a\"]"));
  EXPECT_FALSE(same("word_sorting", "b, a", "a, b"));
  EXPECT_TRUE(same("word_sorting_mistake", nullptr, "No"));
  EXPECT_TRUE(same("word_sorting_mistake", 7, "7"));
  EXPECT_FALSE(same("word_sorting_mistake", nullptr, "7"));
  EXPECT_TRUE(same("arc_agi", {{1, 2}, {3, 4}}, "[[1,2],[3,4]]"));
  EXPECT_FALSE(same("arc_agi", {{1, 2}, {3, 4}}, "[[1,2,3,4]]"));
  const char* table = R"({"header": ["House", "Pet"], "rows": [["1", "dog"], ["2", "cat"]]})";
  EXPECT_TRUE(
      same("zebra_puzzle", table, R"({"header": ["Pet", "House"], "rows": [["dog", "1"], ["cat", "2"]]})"));
  EXPECT_FALSE(same("zebra_puzzle", nlohmann::json::parse(table),
                    R"({"header": ["House", "Pet"], "rows": [["1", "cat"], ["2", "dog"]]})"));
}

}  // namespace
}  // namespace longhaul::puzzles
