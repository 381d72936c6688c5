// Space reasoning, on grids and in trees: answers by hand, what is not decided, and the answers that are
// read.
#include <gtest/gtest.h>

#include "base/error.h"
#include "puzzles/space_reasoning/space_reasoning.h"
#include "puzzles/space_reasoning_tree/space_reasoning_tree.h"

namespace longhaul::puzzles {
namespace {

nlohmann::json walk_of(const char* shape, const char* rest) {
  nlohmann::json given = nlohmann::json::parse(rest);
  given["shape"] = shape;
  given["side"] = 4;
  given["start"] = "apple";
  return given;
}

TEST(SpaceReasoning, EndsWhereItShouldByHand) {
  const auto answer = [](const nlohmann::json& given) {
    return space_reasoning::answer_of(space_reasoning::read_given(given));
  };
  // Around a square and back to the start.
  EXPECT_EQ(
      answer(walk_of("square",
                     R"({"walk": [[[["right", 2]], "dog"], [[["down", 1]], "fig"]], "jump": [], "back": [],
                                         "last": [["up", 1], ["left", 2]]})")),
      "apple");
  // In a triangle one step down-right and one up-right are two to the right.
  EXPECT_EQ(
      answer(walk_of("triangle",
                     R"({"walk": [[[["right", 2]], "dog"], [[["left", 2]], "apple"]], "jump": [], "back": [],
                                           "last": [["down-right", 1], ["up-right", 1], ["down-left", 1], ["right", 1], ["up-right", 1],
                                                    ["left", 1]]})")),
      std::nullopt);
  EXPECT_EQ(answer(walk_of(
                "triangle",
                R"({"walk": [[[["down-right", 1]], "dog"], [[["left", 1]], "fig"]], "jump": [], "back": [],
                                           "last": [["up-right", 1], ["down-right", 1]]})")),
            "dog");
  // A diamond has no rows to walk along, and four slanting steps come back.
  EXPECT_EQ(
      answer(walk_of(
          "diamond",
          R"({"walk": [[[["down-right", 1]], "dog"], [[["down-left", 1]], "fig"]], "jump": [], "back": [],
                                          "last": [["up-left", 1], ["up-right", 1]]})")),
      "apple");
  EXPECT_THROW(space_reasoning::read_given(walk_of(
                   "diamond", R"({"walk": [[[["right", 1]], "dog"]], "jump": [], "back": [], "last": []})")),
               Error);
  // After the jump the dog is two to the right of the landing; the way goes from the landing to the new
  // thing.
  const char* jump =
      R"({"walk": [[[["right", 2]], "dog"]], "jump": [[[["down", 1]], "fig"], [[["up", 1], ["right", 2]], "dog"]],
                         "back": [["left", 2]], "last": [["down", 1]]})";
  EXPECT_EQ(answer(walk_of("square", jump)), "fig");
  nlohmann::json lost = walk_of("square", jump);
  lost["jump"].erase(1);
  EXPECT_EQ(answer(lost), std::nullopt);  // nothing known is met
}

TEST(SpaceReasoning, AnswersAreThingsInEitherLanguage) {
  const TaskEntry& task = space_reasoning::kTask;
  const nlohmann::json given = walk_of(
      "square",
      R"({"walk": [[[["right", 2]], "game console"]], "jump": [], "back": [], "last": [["left", 2]]})");
  for (const char* good : {"apple", "The Apple", "an apple", "苹果"})
    EXPECT_TRUE(task.verify(given, good).accepted()) << good;
  for (const char* bad :
       {"game console", "apples", "apple, game console", "apple or game console", "", "红色"})
    EXPECT_FALSE(task.verify(given, bad).accepted()) << bad;
}

nlohmann::json tree_of(const char* facts) {
  return {{"facts", nlohmann::json::parse(facts)}, {"asked", "pear"}};
}

TEST(SpaceReasoningTree, CousinsByHand) {
  const auto cousins = [](const char* facts) {
    return space_reasoning_tree::cousins_of(space_reasoning_tree::read_given(tree_of(facts)));
  };
  using Set = std::set<std::string>;
  EXPECT_EQ(
      cousins(R"([["children", "dog", ["pear", "fig"]], ["grandchildren", "cat", ["pear", "fig", "plum"]]])"),
      (Set{"plum"}));
  EXPECT_EQ(
      cousins(
          R"([["children", "cat", ["dog", "cow", "hen"]], ["children", "dog", ["pear"]], ["children", "cow", []],
                        ["children", "hen", ["plum", "lime"]]])"),
      (Set{"lime", "plum"}));
  EXPECT_EQ(
      cousins(
          R"([["children", "cat", ["dog", "cow", "hen"]], ["children", "dog", ["pear"]], ["children", "cow", []]])"),
      std::nullopt);
  EXPECT_EQ(cousins(R"([["grandchildren", "cat", ["pear", "fig", "plum"]]])"), std::nullopt);
}

TEST(SpaceReasoningTree, AnswersAreSetsOfThings) {
  const TaskEntry& task = space_reasoning_tree::kTask;
  const nlohmann::json given = tree_of(
      R"([["children", "dog", ["pear"]], ["grandchildren", "cat", ["pear", "game console", "plum"]], ["siblings", "dog", []]])");
  for (const char* good :
       {"plum, game console", "game console,plum", "the plum, a game console, plum", "李子, 游戏机"})
    EXPECT_TRUE(task.verify(given, good).accepted()) << good;
  for (const char* bad : {"plum", "plum, game console, pear", "plum, gameconsole", "plum,, game console",
                          "plum game console", ""})
    EXPECT_FALSE(task.verify(given, bad).accepted()) << bad;
}

}  // namespace
}  // namespace longhaul::puzzles
