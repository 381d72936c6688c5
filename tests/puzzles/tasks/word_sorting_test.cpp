// Words in a new order, by hand; and the dictionary that they come from.
#include "puzzles/word_sorting/word_sorting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "puzzles/engine/words/dictionary.h"
#include "puzzles/engine/words/drawn_words.h"
#include "puzzles/maker.h"

namespace longhaul::puzzles::word_sorting {
namespace {

using ::testing::ElementsAre;

TEST(WordSorting, OrdersByHand) {
  EXPECT_THAT(sorted({"zy", false, {"apple", "yes", "zoo", "bee", "yet"}}),
              ElementsAre("zoo", "yes", "yet", "apple", "bee"));
  EXPECT_THAT(sorted({"s", true, {"car", "cart", "cars", "cat"}}), ElementsAre("cat", "cart", "cars", "car"));
  EXPECT_THAT(sorted({"tc", false, {"care", "cat", "tea", "car", "ant"}}),
              ElementsAre("tea", "cat", "car", "care", "ant"));
}

TEST(WordSorting, AnswersMayBeListsAndUpperCase) {
  const nlohmann::json given = {
      {"front", "z"}, {"order", "ascending"}, {"words", {"apple", "zoo", "bee", "ape"}}};
  const auto code = [&](const char* answer) { return kTask.verify(given, answer).code; };
  EXPECT_EQ(code("zoo, ape, apple, bee"), VerdictCode::kAccepted);
  EXPECT_EQ(code("Zoo,ape,\n Apple , bee"), VerdictCode::kAccepted);
  EXPECT_EQ(code("[\"zoo\", 'ape', apple, bee]"), VerdictCode::kAccepted);
  EXPECT_EQ(code("ape, apple, bee, zoo"), VerdictCode::kRuleBroken);
  EXPECT_EQ(code("zoo, ape, apple"), VerdictCode::kShape);
  EXPECT_EQ(code("zoo, ape, apple, bee, bee"), VerdictCode::kShape);
  EXPECT_EQ(code("zoo, ape, apple, be"), VerdictCode::kShape);
  EXPECT_EQ(code("zoo; ape; apple; bee"), VerdictCode::kUnreadable);
  EXPECT_EQ(code("zoo, ape, apple, bee."), VerdictCode::kUnreadable);
  EXPECT_EQ(code("zoo, , ape, apple, bee"), VerdictCode::kUnreadable);
}

TEST(WordSorting, HardPuzzlesHaveWordsThatBeginAlike) {
  const auto alike = [](int64_t percent) {
    Draw draw({.task = "alike", .index = 1});
    std::map<std::string_view, int64_t> beginnings;
    for (const std::string_view word : drawn_words(40, percent, draw)) ++beginnings[word.substr(0, 3)];
    int64_t shared = 0;
    for (const auto& [beginning, count] : beginnings) shared += count - 1;
    return shared;
  };
  EXPECT_LT(alike(0), 8);
  EXPECT_GT(alike(60), 16);
}

TEST(Dictionary, IsSortedPlainAndLargeEnough) {
  const auto words = dictionary();
  EXPECT_GT(words.size(), 20'000u);
  EXPECT_TRUE(std::ranges::is_sorted(words));
  EXPECT_EQ(std::ranges::adjacent_find(words), words.end());
  for (const std::string_view word : words) {
    EXPECT_TRUE(word.size() >= 3 && word.size() <= 12) << word;
    EXPECT_TRUE(std::ranges::all_of(word, [](char c) { return c >= 'a' && c <= 'z'; })) << word;
  }
  size_t all = 0;
  for (char letter = 'a'; letter <= 'z'; ++letter) {
    for (const std::string_view word : dictionary_of(letter)) EXPECT_EQ(word[0], letter);
    EXPECT_FALSE(dictionary_of(letter).empty()) << letter;
    all += dictionary_of(letter).size();
  }
  EXPECT_EQ(all, words.size());
}

}  // namespace
}  // namespace longhaul::puzzles::word_sorting
