// Puzzles of a task as the commands make, write and read them.
#include "puzzles/maker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "base/threads/parallel.h"
#include "puzzles/records.h"
#include "puzzles/tasks.h"

namespace longhaul::puzzles {
namespace {

using ::testing::HasSubstr;

TEST(PuzzleMaker, IsTheSameOnAnyNumberOfThreadsAndLeavesOutWhatIsDouble) {
  const TaskEntry& task = task_named("mathador");
  const MakeRequest request{.task = &task, .knobs = at_level(task.knobs, 2), .seed = 3, .count = 120};
  const int before = threads();
  set_threads(1);
  const auto one = make_puzzles(request);
  set_threads(2);
  const auto two = make_puzzles(request);
  set_threads(before);
  ASSERT_EQ(one.size(), 120u);
  ASSERT_EQ(two.size(), 120u);
  std::set<std::string> different;
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].puzzle.given, two[i].puzzle.given);
    EXPECT_EQ(one[i].index, two[i].index);
    different.insert(task.canonical(one[i].puzzle.given));
    EXPECT_EQ(make_puzzle(task, request.knobs, 3, one[i].index)->puzzle.given, one[i].puzzle.given);
  }
  EXPECT_EQ(different.size(), 120u);
}

TEST(PuzzleMaker, SaysWhenThereAreNoMore) {
  const TaskEntry& task = task_named("mathador");
  const KnobValues knobs =
      with_changes(task.knobs, at_level(task.knobs, 0), {{"numbers", 2}, {"largest", 4}});
  try {
    make_puzzles({.task = &task, .knobs = knobs, .seed = 3, .count = 100});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("no more different puzzles"));
  }
}

// What public verifiers read stands in the language of the prompt, and the verdict does not depend on it.
TEST(PuzzleRecords, AreToldInTheLanguageOfThePrompt) {
  for (const char* key : {"goods_exchange", "space_reasoning", "space_reasoning_tree", "web_of_lies"}) {
    const TaskEntry& task = task_named(key);
    const KnobValues knobs = at_level(task.knobs, 2);
    const MadePuzzle made = make_puzzle(task, knobs, 5, 9).value();
    const nlohmann::ordered_json record = to_record(made, {&task, knobs, 2, 5, Language::kChinese});
    const std::string solution = record["solution"];
    EXPECT_EQ(solution.find_first_of("abcdefghijklmnopqrstuvwxyz"), std::string::npos)
        << key << ": " << solution;
    const ReadRecord read = read_record(record.dump(), "file:1");
    EXPECT_TRUE(task.verify(read.given, solution).accepted()) << key;
    EXPECT_TRUE(task.verify(read.given, made.puzzle.solution).accepted()) << key;
    if (read.given.contains("owns_after")) {
      EXPECT_EQ(read.given["owns_after"], solution);
    }
  }
}

TEST(PuzzleRecords, ComeBackAndAreChecked) {
  for (const TaskEntry* task : tasks()) {
    const KnobValues knobs = at_level(task->knobs, 2);
    const MadePuzzle made = make_puzzle(*task, knobs, 5, 9).value();
    const std::string line = to_record(made, {task, knobs, 2, 5, Language::kEnglish}).dump();
    const ReadRecord read = read_record(line, "file:1");
    EXPECT_EQ(read.task, task);
    EXPECT_EQ(read.given, made.puzzle.given);
    EXPECT_EQ(to_record(made, {task, knobs, 2, 5 | kValidationSeeds, Language::kEnglish})["data_source"],
              "val/" + std::string(task->key));
  }
  for (const char* bad : {"", "[]", "{}", R"({"data_source": "sudoku"})",
                          R"({"data_source": "sudoku", "extra_info": {"game_data_str": "{}"}})", "not json"})
    EXPECT_THROW(read_record(bad, "file:1"), Error) << bad;
  EXPECT_THROW(read_record(R"({"data_source": "sudokku"})", "file:1"), Error);
}

}  // namespace
}  // namespace longhaul::puzzles
