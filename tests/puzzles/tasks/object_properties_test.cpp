// Object properties: each kind of change by hand, on three items.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "puzzles/maker.h"
#include "puzzles/object_properties/object_properties.h"

namespace longhaul::puzzles {
namespace {

using object_properties::Change;
using object_properties::change_kinds;
using object_properties::Item;
using Items = std::multiset<Item>;

// size, colour, origin, material, smell, name
const std::vector<Item> kFirst = {{1, 2, 3, 4, 5, 6}, {1, 3, 3, 0, 5, 7}, {2, 2, 0, 4, 1, 6}};

Items items_after(std::string_view kind, std::vector<uint8_t> values,
                  const std::vector<Item>& items = kFirst) {
  const auto found =
      std::ranges::find(change_kinds(), kind, &object_properties::ChangeKind::name) - change_kinds().begin();
  const auto made =
      object_properties::changed(items, Change{static_cast<size_t>(found), std::move(values)}, kFirst);
  return {made.begin(), made.end()};
}

TEST(ObjectProperties, ChangesByHand) {
  EXPECT_EQ(items_after("treat", {1, 8, 9}),
            (Items{{1, 2, 3, 8, 9, 6}, {1, 3, 3, 8, 9, 7}, {2, 2, 0, 4, 1, 6}}));
  EXPECT_EQ(items_after("split", {2, 7, 8}),
            (Items{{1, 2, 3, 4, 5, 6}, {1, 3, 3, 0, 5, 7}, {7, 2, 0, 4, 1, 6}, {2, 8, 0, 4, 1, 6}}));
  EXPECT_EQ(items_after("dye", {4, 9, 0}),
            (Items{{1, 9, 3, 4, 0, 6}, {1, 3, 3, 0, 5, 7}, {2, 9, 0, 4, 0, 6}}));
  EXPECT_EQ(items_after("copy", {3, 4, 5, 6, 7, 8}),
            (Items{{1, 2, 3, 4, 5, 6}, {1, 3, 3, 0, 5, 7}, {2, 2, 0, 4, 1, 6}, {6, 4, 5, 8, 7, 7}}));
  EXPECT_EQ(items_after("add_new_pairs", {}), Items(kFirst.begin(), kFirst.end()));
  EXPECT_EQ(items_after("add_new_pairs", {}, {{1, 3, 0, 0, 1, 0}, {1, 2, 0, 0, 1, 0}}),
            (Items{{1, 3, 0, 0, 1, 0}, {1, 3, 0, 0, 1, 0}, {1, 2, 0, 0, 1, 0}}));
  EXPECT_EQ(items_after("lose", {1}), (Items{{2, 2, 0, 4, 1, 6}}));
  EXPECT_EQ(items_after("remake", {2, 9}),
            (Items{{1, 2, 3, 9, 5, 6}, {1, 3, 3, 0, 5, 7}, {2, 2, 0, 9, 1, 6}}));
  EXPECT_EQ(items_after("trade", {3, 1, 9, 8, 7, 6, 5}),
            (Items{{9, 8, 1, 7, 6, 5}, {9, 8, 1, 7, 6, 5}, {2, 2, 0, 4, 1, 6}}));
  EXPECT_EQ(items_after("twin", {1, 0}),
            (Items{{1, 2, 3, 4, 5, 6}, {1, 3, 3, 0, 5, 7}, {2, 2, 0, 4, 1, 6}, {2, 0, 0, 4, 1, 6}}));
  EXPECT_EQ(items_after("recolour", {2, 0}),
            (Items{{1, 2, 3, 4, 5, 6}, {1, 3, 3, 0, 5, 7}, {2, 0, 0, 4, 1, 6}}));
}

TEST(ObjectProperties, CountsEachItemOnce) {
  const TaskEntry& task = object_properties::kTask;
  const nlohmann::json given = {{"items", kFirst},
                                {"in_runs", 0},
                                {"changes", {{"recolour", 2, 0}}},
                                {"question", {{0, 1}, {4, 5}, {1, 3}}}};
  EXPECT_TRUE(task.verify(given, "2").accepted());
  for (const char* bad : {"3", "4", "", "2.0", "two", "2 items", "unknown"})
    EXPECT_FALSE(task.verify(given, bad).accepted()) << bad;
  nlohmann::json endless = given;
  for (int i = 0; i < 20; ++i) endless["changes"].push_back({"twin", 5, i % 2});
  EXPECT_THROW(task.verify(endless, "2"), Error);
}

// Two of the items of kFirst become items of which size and material alone are known.
TEST(ObjectProperties, WhatIsHiddenMayDecide) {
  constexpr uint8_t kNot = object_properties::kHidden;
  EXPECT_EQ(items_after("trade_unseen", {3, 9, 8}),
            (Items{{9, kNot, kNot, 8, kNot, kNot}, {9, kNot, kNot, 8, kNot, kNot}, {2, 2, 0, 4, 1, 6}}));
  const TaskEntry& task = object_properties::kTask;
  nlohmann::json given = {{"items", kFirst},
                          {"in_runs", 0},
                          {"changes", {{"trade_unseen", 3, 9, 8}}},
                          {"question", {{0, 9}, {3, 4}}}};
  EXPECT_TRUE(task.verify(given, "3").accepted());
  EXPECT_FALSE(task.verify(given, "unknown").accepted());
  given["question"] = {{1, 2}};  // a colour
  for (const char* good : {"unknown", "Unknown", "未知"})
    EXPECT_TRUE(task.verify(given, good).accepted()) << good;
  for (const char* bad : {"1", "0", "3", "known", ""})
    EXPECT_FALSE(task.verify(given, bad).accepted()) << bad;
  given["question"] = {{1, 2}, {0, 9}};  // whatever their colour
  EXPECT_TRUE(task.verify(given, "3").accepted());
  given["changes"].push_back({"recolour", 9, 5});
  given["question"] = {{1, 5}};
  EXPECT_TRUE(task.verify(given, "2").accepted());
  given["changes"].push_back({"twin", 1, 5});  // chooses by smells
  EXPECT_THROW(task.verify(given, "2"), Error);
}

TEST(ObjectProperties, UnknownIsAnAnswerSometimes) {
  const TaskEntry& task = object_properties::kTask;
  int unknown = 0;
  for (int64_t index = 0; index < 200; ++index) {
    const auto made = make_puzzle(task, at_level(task.knobs, 10), 2, index);
    if (made->puzzle.solution != "unknown") continue;
    ++unknown;
    EXPECT_EQ(task.in_language(made->puzzle, Language::kChinese).solution, "未知");
  }
  EXPECT_GT(unknown, 4);
  EXPECT_LT(unknown, 60);
}

TEST(ObjectProperties, EachChangeComesAndNoAnswerIsCommon) {
  const TaskEntry& task = object_properties::kTask;
  std::set<std::string> kinds;
  std::map<std::string, int> answers;
  for (int64_t index = 0; index < 200; ++index) {
    const auto made = make_puzzle(task, at_level(task.knobs, 4), 1, index);
    for (const auto& change : made->puzzle.given["changes"]) kinds.insert(change[0]);
    ++answers[made->puzzle.solution];
  }
  EXPECT_EQ(kinds.size(), change_kinds().size());
  for (const auto& [answer, count] : answers) EXPECT_LE(count, 60) << answer;
}

}  // namespace
}  // namespace longhaul::puzzles
