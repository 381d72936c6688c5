// Words that puzzles are told with, each in English and in Chinese: names of people, colours, places and
// things. An English word is the word's name in a `given`; no word stands in two tables, in either language.
//
//   const std::string_view text = in_language("apple", Language::kChinese);      // "苹果"
//
// Our own lists. Pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "puzzles/engine/prompt.h"

namespace longhaul::puzzles {

struct Word {
  std::string_view english, chinese;
};

struct Category {
  Word name;
  std::string_view plural;   // "pieces of fruit"
  std::string_view measure;  // the Chinese measure word of its things
  std::span<const Word> things;
};

std::span<const Word> names();
std::span<const Word> colours();
std::span<const Word> places();
std::span<const Word> things();          // those of all categories, and others
std::span<const Category> categories();  // seven, whose things nobody takes for those of another

// The word of one of the tables in a language; nullopt: it stands in none.
std::optional<std::string_view> word_in(std::string_view english, Language language);
std::string_view in_language(std::string_view english, Language language);  // of a word that stands in one
// The English word for what is written in either language, without regard to case and to an English article
// in front.
std::optional<std::string_view> english_word(std::string_view text);

std::string with_article(std::string_view english);  // "an apple"
std::string plural_of(std::string_view english);     // by the rules of spelling; of things, never of names

}  // namespace longhaul::puzzles
