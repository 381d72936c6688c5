// Sets of puzzles: the same bytes on any number of threads, no puzzle twice over levels and splits, and the
// parts of the public sets.
#include "puzzles/data_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/files/temporary_folder.h"
#include "base/threads/parallel.h"
#include "puzzles/record_file.h"
#include "puzzles/record_table.h"
#include "puzzles/score.h"
#include "puzzles/support.h"
#include "puzzles/tasks.h"

namespace longhaul::puzzles {
namespace {

TEST(PuzzleSets, AreTheSameBytesOnAnyNumberOfThreads) {
  TemporaryFolder folder;
  const DataSet set = public_set("easy", 8, 4);
  const int before = threads();
  for (const std::string ending : {".jsonl", ".parquet"}) {
    if (ending == ".parquet" && !can_use_tables()) continue;
    std::set<std::string> different;
    for (const int count : {1, 2, 8}) {
      set_threads(count);
      const auto path = folder / ("set" + ending);
      RecordWriter writer(path, format_to_write(path.string(), false));
      make_data_set(set, {.seed = 4},
                    [&](const MadePuzzle& made, const RecordOf& of) { writer.write(to_record(made, of)); });
      writer.finish();
      EXPECT_EQ(writer.rows(), puzzles_of(set));
      different.insert(read_text(path));
    }
    EXPECT_EQ(different.size(), 1u) << ending;
  }
  set_threads(before);
}

TEST(PuzzleSets, HaveNoPuzzleTwiceOverLevelsAndSplits) {
  // With three numbers up to 9 there are few different puzzles, and levels that differ in nothing would have
  // the same.
  const TaskEntry& task = task_named("mathador");
  const KnobValues knobs =
      with_changes(task.knobs, at_level(task.knobs, 0), {{"numbers", 3}, {"largest", 9}});
  const DataSet set = {
      {&task, knobs, 0, 15, 0, true}, {&task, knobs, 0, 15, 0, false}, {&task, knobs, 1, 10, 0, false}};
  std::set<std::string> different;
  int64_t validation = 0, told = 0;
  make_data_set(
      set, {.seed = 4},
      [&](const MadePuzzle& made, const RecordOf& of) {
        EXPECT_TRUE(different.insert(task.canonical(made.puzzle.given)).second) << made.puzzle.given.dump();
        validation += (of.seed & kValidationSeeds) != 0 ? 1 : 0;
        EXPECT_EQ(to_record(made, of)["data_source"],
                  (of.seed & kValidationSeeds) != 0 ? "val/mathador" : "mathador");
      },
      [&](int64_t made) { told = made; });
  EXPECT_EQ(different.size(), 40u);
  EXPECT_EQ(validation, 15);
  EXPECT_EQ(told, 40);
}

TEST(PuzzleSets, OfThePublicNamesHaveTheirTasksAndLevels) {
  for (const auto& [name, least, most] : {std::tuple("hard", 3, 7), std::tuple("easy", 0, 3)}) {
    std::map<std::string_view, std::map<bool, int64_t>> counts;
    for (const DataSetPart& part : public_set(name, 23, 10)) {
      counts[part.task->key][part.validation] += part.count;
      EXPECT_GE(part.level, least);
      EXPECT_LE(part.level, most);
      EXPECT_EQ(part.knobs, at_level(part.task->knobs, part.level));
    }
    // one of the eight that the easy set lacks
    EXPECT_EQ(counts.contains("kukurasu"), std::string_view(name) == "hard");
    EXPECT_TRUE(counts.contains("sudoku"));
    EXPECT_TRUE(std::string_view(name) == "easy" || counts.size() == tasks().size());
    for (const auto& [key, both] : counts) {
      EXPECT_EQ(both.at(true), 10) << key;
      EXPECT_EQ(both.at(false), 23) << key;
    }
  }
}

TEST(PuzzleSets, OfAMixtureHaveItsLevels) {
  LevelMixture mixture(1);
  mixture.add("sudoku", 0, {100, 99});
  mixture.add("sudoku", 1, {100, 50});
  const DataSet set = mixed_set({&task_named("sudoku")}, mixture, 50, false);
  ASSERT_EQ(set.size(), 2u);
  EXPECT_EQ(puzzles_of(set), 50);
  EXPECT_EQ(set[1].level, 1);
  EXPECT_GT(set[1].count, 45);
}

TEST(PuzzleScores, TellAWrongFormatFromAWrongAnswer) {
  const TaskEntry& task = task_named("sudoku");
  ReadRecord record{.task = &task,
                    .given = nlohmann::json::parse(
                        R"({"original_sudoku": [[1,"X",3,4],[3,4,1,2],[2,1,4,3],[4,3,2,"X"]]})")};
  const std::string right = "[[1,2,3,4],[3,4,1,2],[2,1,4,3],[4,3,2,1]]";
  struct Case {
    std::string response;
    double cascade;
    int reward;
    bool format, readable, shape, rules;
  };
  for (const Case& each :
       {Case{"<think>t</think><answer>" + right + "</answer>", 1, 1, true, true, true, true},
        Case{"so: <answer>" + right + "</answer>", 0, 0, false, true, true, true},
        Case{"<think>t</think><answer>no idea</answer>", 0.25, 0, true, false, false, false},
        Case{"<think>t</think><answer>[[1,2],[2,1]]</answer>", 0.5, 0, true, true, false, false},
        Case{"<think>t</think><answer>[[2,1,3,4],[3,4,1,2],[1,2,4,3],[4,3,2,1]]</answer>", 0.75, 0, true,
             true, true, false},
        Case{"<think>t</think><answer>[[1,2,3,4],[3,4,1,2],[2,1,4,3],[4,3,2,2]]</answer>", 0.75, 0, true,
             true, true, false},
        Case{right, 0, 0, false, false, false, false}}) {
    const Score score = score_of(each.response, verdict_on(record, each.response));
    EXPECT_EQ(score.cascade(), each.cascade) << each.response;
    EXPECT_EQ(score.reward(), each.reward) << each.response;
    EXPECT_EQ(std::tuple(score.format, score.readable, score.shape, score.rules),
              std::tuple(each.format, each.readable, each.shape, each.rules))
        << each.response;
    EXPECT_EQ(to_json(score)["cascade"], each.cascade);
    EXPECT_EQ(to_json(score)["reward"], each.reward);
  }
}

}  // namespace
}  // namespace longhaul::puzzles
