// Pairs of right and wrong answers: the verifier accepts one of each pair and not the other.
#include "puzzles/answer_pairs.h"

#include <gtest/gtest.h>

#include "puzzles/maker.h"
#include "puzzles/tasks.h"

namespace longhaul::puzzles {
namespace {

using nlohmann::ordered_json;

// Rows as a file of made puzzles has them.
std::vector<ReadRecord> made_records(const std::string& task, int64_t level, int64_t count) {
  std::vector<ReadRecord> records;
  const TaskEntry& entry = task_named(task);
  const KnobValues knobs = at_level(entry.knobs, level);
  for (const MadePuzzle& made : make_puzzles({.task = &entry, .knobs = knobs, .seed = 3, .count = count})) {
    records.push_back(
        read_record(to_record(made, {&entry, knobs, level, 3, Language::kEnglish}).dump(), "made"));
  }
  return records;
}

TEST(AnswerPairsOfPuzzles, OneIsRightAndTheOtherIsNot) {
  const std::vector<ReadRecord> records = made_records("dyck_language", 2, 30);
  size_t next = 0;
  const AnswerPairs pairs =
      make_answer_pairs(records, {.before = "\n> ", .after = "."}, [&](const ordered_json& pair) {
        const ReadRecord& record = records[next++];
        const auto payload = [&](const char* side) {
          const auto text = pair.at(side).get<std::string>();
          EXPECT_EQ(text.back(), '.');
          return text.substr(0, text.size() - 1);
        };
        EXPECT_TRUE(verdict_on_payload(record, payload("chosen")).accepted());
        EXPECT_FALSE(verdict_on_payload(record, payload("rejected")).accepted());
        EXPECT_TRUE(pair.at("prompt").get<std::string>().ends_with("\n> "));
      });
  EXPECT_EQ(pairs.made, 30);
  EXPECT_EQ(next, 30u);
}

TEST(AnswerPairsOfPuzzles, MessagesHaveTheAnswerBetweenTags) {
  const std::vector<ReadRecord> records = made_records("dyck_language", 2, 5);
  make_answer_pairs(records, {.messages = true}, [&](const ordered_json& pair) {
    EXPECT_EQ(pair.at("prompt")[0].at("role"), "user");
    EXPECT_EQ(pair.at("chosen")[0].at("role"), "assistant");
    EXPECT_TRUE(pair.at("rejected")[0].at("content").get<std::string>().starts_with("<answer>"));
  });
}

TEST(AnswerPairsOfPuzzles, PuzzlesThatGiveNoneAreCounted) {
  std::vector<ReadRecord> records = made_records("dyck_language", 2, 3);
  records[1].answer.clear();
  int64_t given = 0;
  AnswerPairs pairs = make_answer_pairs(records, {}, [&](const ordered_json&) { ++given; });
  EXPECT_EQ(pairs.made, 2);
  EXPECT_EQ(given, 2);
  EXPECT_EQ(pairs.without_answer, 1);
  records.resize(1);  // alone there is no other answer
  pairs = make_answer_pairs(records, {}, [&](const ordered_json&) { ++given; });
  EXPECT_EQ(pairs.made, 0);
  EXPECT_EQ(pairs.without_wrong, 1);
}

}  // namespace
}  // namespace longhaul::puzzles
