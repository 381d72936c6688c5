// Zebra puzzles: solutions counted by trying every table, answers in other forms, and the public files.
#include "puzzles/zebra_puzzle/zebra_puzzle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "puzzles/maker.h"
#include "puzzles/records.h"
#include "puzzles/second_checkers/checkers.h"
#include "puzzles/zebra_puzzle/public.h"

namespace longhaul::puzzles::zebra_puzzle {
namespace {

using ::testing::HasSubstr;

// Every table of a puzzle with three attributes, judged by the second checker from the sentences of the
// prompt.
int64_t plain_count(const Zebra& zebra) {
  const nlohmann::json given = given_of(zebra);
  std::vector<size_t> order(zebra.houses);
  std::iota(order.begin(), order.end(), size_t{0});
  std::vector<std::vector<size_t>> orders;
  do orders.push_back(order);
  while (std::ranges::next_permutation(order).found);
  int64_t count = 0;
  for (const auto& first : orders) {
    for (const auto& second : orders) {
      Places places = first;
      places.insert(places.end(), second.begin(), second.end());
      count += plain_zebra_puzzle(given, table_of(zebra, places, Language::kEnglish)) ? 1 : 0;
    }
  }
  return count;
}

TEST(ZebraPuzzle, TablesAreCountedAsByTryingAll) {
  for (uint64_t i = 0; i < 24; ++i) {
    Draw draw({.task = "zebras", .index = i});
    Zebra zebra{.houses = 4,
                .attributes = {{"name", {"Alice", "Bob", "Carol", "David"}},
                               {"fruit", {"apple", "pear", "peach", "plum"}}}};
    for (int64_t clues = draw.between(1, 4); clues > 0; --clues) {
      Clue clue{.kind = static_cast<ClueKind>((i + draw.below(3)) % kClueKinds),
                .a = draw.below(8),
                .b = draw.below(8)};
      clue.house = draw.below(4), clue.other_house = draw.below(4);
      zebra.clues.push_back(clue);
    }
    SearchBudget budget;
    const SolutionCount count = count_solutions(zebra, 10'000, budget);
    EXPECT_TRUE(count.known);
    EXPECT_EQ(count.found, plain_count(zebra)) << given_of(zebra).dump();
  }
}

TEST(ZebraPuzzle, NoClueIsLeftThatIsNotNeeded) {
  const MadePuzzle made = make_puzzle(kTask, at_level(kTask.knobs, 4), 3, 1).value();
  const Zebra zebra = read_given(made.puzzle.given);
  for (size_t i = 0; i < zebra.clues.size(); ++i) {
    Zebra fewer = zebra;
    fewer.clues.erase(fewer.clues.begin() + static_cast<int64_t>(i));
    SearchBudget budget;
    EXPECT_EQ(count_solutions(fewer, 2, budget).found, 2) << i;
  }
}

TEST(ZebraPuzzle, AnswersMayHaveOtherColumnsAndLanguages) {
  const nlohmann::json given = {
      {"houses", 2},
      {"attributes",
       {{{"name", "name"}, {"values", {"Alice", "Bob"}}},
        {{"name", "fruit"}, {"values", {"apple", "pear"}}}}},
      {"clues",
       {{{"kind", "at"}, {"a", "Bob"}, {"house", 1}}, {{"kind", "same"}, {"a", "Bob"}, {"b", "pear"}}}}};
  const auto code = [&](const char* answer) { return kTask.verify(given, answer).code; };
  EXPECT_EQ(
      code(
          R"({"header": ["House", "name", "fruit"], "rows": [["1", "Bob", "pear"], ["2", "Alice", "apple"]]})"),
      VerdictCode::kAccepted);
  EXPECT_EQ(
      code(R"({"rows": [["pear", 1, "bob"], ["apple", 2, "Alice"]], "header": ["fruit", "house", "Name"]})"),
      VerdictCode::kAccepted);
  EXPECT_EQ(
      code(R"({"header": ["房子", "姓名", "水果"], "rows": [["1", "鲍勃", "梨"], ["2", "爱丽丝", "苹果"]]})"),
      VerdictCode::kAccepted);
  EXPECT_EQ(
      code(
          R"({"header": ["House", "name", "fruit"], "rows": [["1", "Bob", "apple"], ["2", "Alice", "pear"]]})"),
      VerdictCode::kRuleBroken);
  EXPECT_EQ(
      code(
          R"({"header": ["House", "name", "fruit"], "rows": [["1", "Alice", "pear"], ["2", "Bob", "apple"]]})"),
      VerdictCode::kRuleBroken);
  EXPECT_EQ(
      code(
          R"({"header": ["House", "name", "fruit"], "rows": [["1", "Bob", "pear"], ["2", "Bob", "apple"]]})"),
      VerdictCode::kRuleBroken);
  EXPECT_EQ(
      code(
          R"({"header": ["House", "name", "fruit"], "rows": [["1", "Bob", "pear"], ["1", "Alice", "apple"]]})"),
      VerdictCode::kRuleBroken);
  EXPECT_EQ(code(R"({"header": ["House", "name", "fruit"], "rows": [["1", "Bob", "pear"]]})"),
            VerdictCode::kShape);
  EXPECT_EQ(
      code(
          R"({"header": ["House", "name", "name"], "rows": [["1", "Bob", "Bob"], ["2", "Alice", "Alice"]]})"),
      VerdictCode::kShape);
  EXPECT_EQ(code(R"({"header": ["House", "name", "fruit"], "rows": [["1", "Bob"], ["2", "Alice"]]})"),
            VerdictCode::kUnreadable);
}

TEST(ZebraPuzzle, ChinesePuzzlesHaveChineseSolutions) {
  const MadePuzzle made = make_puzzle(kTask, at_level(kTask.knobs, 2), 3, 1).value();
  const Puzzle chinese = puzzle_in(kTask, made.puzzle, Language::kChinese);
  EXPECT_THAT(chinese.solution, HasSubstr("房子"));
  EXPECT_TRUE(kTask.verify(chinese.given, chinese.solution).accepted());
}

constexpr std::string_view kPublic = R"([
  {"id": "ours-2x2", "size": "2*2", "puzzle": "There are 2 houses. Ann is not in the first house. Ann has the cat.",
   "solution": {"header": ["House", "Name", "Pet"], "rows": [["1", "Tom", "dog"], ["2", "Ann", "cat"]]}}])";

TEST(ZebraPuzzle, PublicFilesAreRead) {
  const std::vector<Puzzle> puzzles = kTask.read_public_file(std::string(kPublic), "ours.json");
  ASSERT_EQ(puzzles.size(), 1u);
  const auto verdict = [&](const char* answer) { return kTask.verify(puzzles[0].given, answer); };
  EXPECT_TRUE(verdict(puzzles[0].solution.c_str()).accepted());
  EXPECT_TRUE(
      verdict(R"({"header": ["House", "Pet", "Name"], "rows": [["1", "dog", "Tom"], ["2", "cat", "Ann"]]})")
          .accepted());
  EXPECT_FALSE(
      verdict(R"({"header": ["House", "Name", "Pet"], "rows": [["1", "Tom", "cat"], ["2", "Ann", "dog"]]})")
          .accepted());
  EXPECT_FALSE(verdict(R"({"header": ["House", "Name"], "rows": [["1", "Tom"], ["2", "Ann"]]})").accepted());
  const std::string prompt = kTask.prompt(puzzles[0].given, Language::kEnglish, 0);
  EXPECT_THAT(prompt, HasSubstr("Ann has the cat."));
  EXPECT_THAT(prompt, HasSubstr(R"(["House","Name","Pet"])"));
  // The same, a line each.
  const std::string line = nlohmann::json::parse(kPublic)[0].dump();
  EXPECT_EQ(kTask.read_public_file(line + "\n" + line + "\n", "ours.jsonl").size(), 2u);
  EXPECT_EQ(kTask.read_public_file(line, "ours.json").size(), 1u);
}

TEST(ZebraPuzzle, PublicFilesWithoutAnswersAreRefused) {
  std::string hidden(kPublic);
  hidden.replace(hidden.find("\"dog\""), 5, "\"___\"");
  for (const std::string& bad :
       {hidden, std::string("{}"), std::string("[{\"puzzle\": \"a\"}]"), std::string("no"),
        std::string(R"({"puzzle": "a", "solution": {"header": ["House"], "rows": [["1", "2"]]}})")}) {
    try {
      kTask.read_public_file(bad, "ours.json");
      ADD_FAILURE() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kData);
      EXPECT_THAT(error.what(), HasSubstr("ours.json"));
    }
  }
}

}  // namespace
}  // namespace longhaul::puzzles::zebra_puzzle
