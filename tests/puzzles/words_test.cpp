// The words of puzzles: no word means two things, and each is found in both languages.
#include <gtest/gtest.h>

#include <set>

#include "puzzles/engine/words/words.h"

namespace longhaul::puzzles {
namespace {

TEST(PuzzleWords, StandOnceInEachLanguage) {
  std::set<std::string_view> english, chinese;
  size_t count = 0;
  for (const auto table : {names(), colours(), places(), things()}) {
    for (const Word& word : table) {
      english.insert(word.english);
      chinese.insert(word.chinese);
      EXPECT_EQ(english_word(word.english), word.english);
      EXPECT_EQ(english_word(word.chinese), word.english);
      EXPECT_EQ(in_language(word.english, Language::kChinese), word.chinese);
      for (const char c : word.english)
        EXPECT_TRUE(c == ' ' || c == '-' || std::isalpha(static_cast<unsigned char>(c))) << word.english;
      for (const char c : word.chinese) EXPECT_GE(static_cast<unsigned char>(c), 0x80) << word.chinese;
      ++count;
    }
  }
  EXPECT_EQ(english.size(), count);
  EXPECT_EQ(chinese.size(), count);
  EXPECT_GE(things().size(), 300u);
  EXPECT_GE(names().size(), 60u);
  EXPECT_GE(colours().size(), 32u);
  for (const Category& category : categories()) EXPECT_GE(category.things.size(), 17u);
}

TEST(PuzzleWords, AreReadWithArticlesAndCapitals) {
  EXPECT_EQ(english_word(" The Apple "), "apple");
  EXPECT_EQ(english_word("an apple"), "apple");
  EXPECT_EQ(english_word("苹果"), "apple");
  EXPECT_EQ(english_word("alice"), "Alice");
  EXPECT_EQ(english_word("apples"), std::nullopt);
  EXPECT_EQ(english_word(""), std::nullopt);
  // a given names words as they stand in the table
  EXPECT_EQ(word_in("Apple", Language::kEnglish), std::nullopt);
}

TEST(PuzzleWords, AreSpeltByTheRules) {
  EXPECT_EQ(plural_of("cherry"), "cherries");
  EXPECT_EQ(plural_of("bench"), "benches");
  EXPECT_EQ(plural_of("key"), "keys");
  EXPECT_EQ(plural_of("dress"), "dresses");
  EXPECT_EQ(plural_of("apple"), "apples");
  EXPECT_EQ(with_article("apple"), "an apple");
  EXPECT_EQ(with_article("hourglass"), "an hourglass");
  EXPECT_EQ(with_article("key"), "a key");
}

}  // namespace
}  // namespace longhaul::puzzles
