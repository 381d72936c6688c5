// Object counting: counts by hand, and the answers that are read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "puzzles/object_counting/object_counting.h"

namespace longhaul::puzzles {
namespace {

nlohmann::json given_with(nlohmann::json question) {
  return {{"statements",
           {{"", "apple", 700, nullptr},
            {"Alice", "apple", 9, 0},
            {"", "dog", 30, {10, 25, 30}},
            {"", "pear", 800, 3},
            {"Bob", "novel", 4, nullptr}}},
          {"question", std::move(question)}};
}

TEST(ObjectCounting, CountsMineByHand) {
  const TaskEntry& task = object_counting::kTask;
  EXPECT_TRUE(task.verify(given_with({"total", "fruit"}), "1500").accepted());
  EXPECT_TRUE(task.verify(given_with({"total", "fruit"}), "1,500").accepted());
  EXPECT_TRUE(task.verify(given_with({"sum", "fruit", "animal"}), "1530").accepted());
  EXPECT_TRUE(task.verify(given_with({"difference", "animal", "fruit"}), "1470").accepted());
  EXPECT_TRUE(task.verify(given_with({"total", "book"}), "0").accepted());
  for (const char* bad : {"1509", "15,00", "-1500", "1500.0", "about 1500", "1, 500"})
    EXPECT_FALSE(task.verify(given_with({"total", "fruit"}), bad).accepted()) << bad;
}

TEST(ObjectCounting, TellsWhatItMeans) {
  const std::string prompt =
      object_counting::prompt(given_with({"sum", "fruit", "animal"}), Language::kEnglish, 0);
  EXPECT_THAT(prompt,
              testing::HasSubstr(
                  "I have 30 dogs (at first 10, then got 15, which made 25, then got 5, which made 30).\n"));
  EXPECT_THAT(prompt, testing::HasSubstr("These are pieces of fruit: apples, pears.\n"));
  EXPECT_THAT(prompt, testing::HasSubstr("How many pieces of fruit and animals do I have taken together?"));
}

TEST(ObjectCounting, WhatIsNoPuzzleIsRefused) {
  const TaskEntry& task = object_counting::kTask;
  EXPECT_THROW(task.verify(given_with({"total", "tool"}), "1"), Error);
  EXPECT_THROW(task.verify(given_with({"sum", "fruit"}), "1"), Error);
  nlohmann::json given = given_with({"total", "fruit"});
  given["statements"][2][3] = {10, 20};
  EXPECT_THROW(task.verify(given, "1"), Error);
  given = given_with({"total", "fruit"});
  given["statements"][0][1] = "hammer";
  EXPECT_THROW(task.verify(given, "1"), Error);
}

}  // namespace
}  // namespace longhaul::puzzles
