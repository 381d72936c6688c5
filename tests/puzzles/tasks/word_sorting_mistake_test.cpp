// Traces of sorts, by hand: what follows, and what does not.
#include "puzzles/word_sorting_mistake/word_sorting_mistake.h"

#include <gtest/gtest.h>

#include <map>

#include "puzzles/maker.h"

namespace longhaul::puzzles::word_sorting_mistake {
namespace {

// cow, ant, car, cart: by their first letters, then the c's by their second and third ones.
Trace by_hand() {
  return {{"cow", "ant", "cart", "car"},
          {{.letter = 1, .places = {{"cow", "c", 3}, {"ant", "a", 1}, {"cart", "c", 3}, {"car", "c", 3}}},
           {.order = {{"ant"}, {"cow", "cart", "car"}}},
           {.letter = 2, .places = {{"cow", "o", 15}, {"cart", "a", 1}, {"car", "a", 1}}},
           {.order = {{"ant"}, {"cart", "car"}, {"cow"}}},
           {.letter = 3, .places = {{"cart", "r", 18}, {"car", "r", 18}}},
           {.order = {{"ant"}, {"cart", "car"}, {"cow"}}},
           {.letter = 4, .places = {{"cart", "t", 20}, {"car", "-", 0}}},
           {.order = {{"ant"}, {"car"}, {"cart"}, {"cow"}}}}};
}

TEST(WordSortingMistake, ARightTraceHasNone) {
  EXPECT_EQ(first_mistake(by_hand()), 0);
  Trace trace = by_hand();
  // inside of a group the order does not matter
  std::swap(trace.thoughts[1].order[1][0], trace.thoughts[1].order[1][2]);
  EXPECT_EQ(first_mistake(trace), 0);
}

TEST(WordSortingMistake, EachKindIsFoundWhereItStands) {
  const auto after = [](auto change) {
    Trace trace = by_hand();
    change(trace.thoughts);
    return first_mistake(trace);
  };
  using Thoughts = std::vector<Thought>;
  EXPECT_EQ(after([](Thoughts& all) { all[0].places[1].number = 2; }), 1);
  EXPECT_EQ(after([](Thoughts& all) { all[2].places[0] = {"cow", "u", 21}; }), 3);
  EXPECT_EQ(after([](Thoughts& all) { all[4].places.pop_back(); }), 5);
  EXPECT_EQ(after([](Thoughts& all) { all[6].letter = 3; }), 7);
  EXPECT_EQ(after([](Thoughts& all) { std::swap(all[1].order[0], all[1].order[1]); }), 2);
  EXPECT_EQ(after([](Thoughts& all) { all[3].order = {{"ant"}, {"cart", "car", "cow"}}; }), 4);
  EXPECT_EQ(after([](Thoughts& all) { all[5].order.pop_back(); }), 6);
  EXPECT_EQ(after([](Thoughts& all) { all[7].order.push_back({"ant"}); }), 8);
  EXPECT_EQ(after([](Thoughts& all) { all.push_back({.letter = 1, .places = {{"ant", "a", 1}}}); }), 9);
  EXPECT_EQ(after([](Thoughts& all) {  // two mistakes: the first counts
              all[3].order.pop_back();
              all[6].places[0].number = 9;
            }),
            4);
}

TEST(WordSortingMistake, TheListOfWordsIsNeverSpoiltAndSharesAreKept) {
  std::map<std::string, int64_t> answers;
  for (int64_t index = 0; index < 300; ++index) {
    const MadePuzzle made = make_puzzle(kTask, at_level(kTask.knobs, 4), 21, index).value();
    ++answers[made.puzzle.solution];
    // The first thought is about every word of the list, once, unless it is the wrong one.
    const Trace trace = read_given(made.puzzle.given);
    if (made.puzzle.solution == "1") continue;
    EXPECT_EQ(trace.thoughts[0].places.size(), trace.words.size());
    for (size_t i = 0; i < trace.words.size(); ++i)
      EXPECT_EQ(trace.thoughts[0].places[i].word, trace.words[i]);
  }
  EXPECT_GT(answers["No"], 9);  // 10 percent of 300, and four standard deviations around it
  EXPECT_LT(answers["No"], 51);
  EXPECT_LT(answers["1"], 90);
}

TEST(WordSortingMistake, AnswersAreANumberOrNo) {
  Trace trace = by_hand();
  const auto code = [](const nlohmann::json& given, const char* answer) {
    return kTask.verify(given, answer).code;
  };
  const nlohmann::json right = {
      {"words", {"b", "a"}},
      {"thoughts",
       {{{"letter", 1}, {"places", {{"b", "b", 2}, {"a", "a", 1}}}}, {{"order", {{"a"}, {"b"}}}}}}};
  EXPECT_EQ(code(right, "No"), VerdictCode::kAccepted);
  EXPECT_EQ(code(right, " no "), VerdictCode::kAccepted);
  EXPECT_EQ(code(right, "0"), VerdictCode::kRuleBroken);
  EXPECT_EQ(code(right, "None"), VerdictCode::kUnreadable);
  nlohmann::json wrong = right;
  wrong["thoughts"][1]["order"] = {{"b"}, {"a"}};
  EXPECT_EQ(code(wrong, "2"), VerdictCode::kAccepted);
  EXPECT_EQ(code(wrong, "1"), VerdictCode::kRuleBroken);
  EXPECT_EQ(code(wrong, "No"), VerdictCode::kRuleBroken);
  EXPECT_EQ(code(wrong, "No, 2"), VerdictCode::kUnreadable);
}

}  // namespace
}  // namespace longhaul::puzzles::word_sorting_mistake
