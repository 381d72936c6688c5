#include "puzzles/engine/words/words.h"

#include <deque>
#include <unordered_map>

#include "base/error.h"
#include "base/text/text.h"
#include "puzzles/engine/answers/answer.h"

namespace longhaul::puzzles {
namespace {

using WordMap = std::unordered_map<std::string_view, const Word*>;

std::string in_lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

// `name(word)` for all words of the tables, the first one counting where two have one.
template <class Name>
WordMap words_by(const Name& name) {
  WordMap made;
  for (const auto table : {names(), colours(), places(), things()}) {
    for (const Word& word : table) made.emplace(name(word), &word);
  }
  return made;
}

const Word* word_of(const WordMap& words, std::string_view text) {
  const auto found = words.find(text);
  return found == words.end() ? nullptr : found->second;
}

// Both languages in one map: no English word is a Chinese one.
const WordMap& words_in_lower_case() {
  static std::deque<std::string> kept;  // what the map's keys view
  static const WordMap map = [] {
    WordMap made = words_by(
        [](const Word& word) -> std::string_view { return kept.emplace_back(in_lower_case(word.english)); });
    made.merge(words_by([](const Word& word) { return word.chinese; }));
    return made;
  }();
  return map;
}

bool is_vowel(char c) { return std::string_view("aeiou").find(c) != std::string_view::npos; }

}  // namespace

std::optional<std::string_view> word_in(std::string_view english, Language language) {
  static const WordMap words = words_by([](const Word& word) { return word.english; });
  const Word* word = word_of(words, english);
  if (word == nullptr) return std::nullopt;
  return language == Language::kChinese ? word->chinese : word->english;
}

std::string_view in_language(std::string_view english, Language language) {
  const std::optional<std::string_view> word = word_in(english, language);
  LONGHAUL_ASSERT(word.has_value(), "no word '{}'", english);
  return *word;
}

std::optional<std::string_view> english_word(std::string_view text) {
  const std::string lower = in_lower_case(trimmed(text));
  std::string_view bare = lower;
  for (const std::string_view article : {"the ", "an ", "a "}) {
    if (bare.starts_with(article)) {
      bare = trimmed(bare.substr(article.size()));
      break;
    }
  }
  const Word* word = word_of(words_in_lower_case(), bare);
  return word == nullptr ? std::nullopt : std::optional(word->english);
}

std::string with_article(std::string_view english) {
  const bool vowel = is_vowel(english[0]) || english.starts_with("hour");  // whose h is silent
  return std::string(vowel ? "an " : "a ").append(english);
}

std::string plural_of(std::string_view english) {
  const std::string text(english);
  const size_t size = text.size();
  if (text.back() == 's' || text.back() == 'x' || text.ends_with("ch") || text.ends_with("sh"))
    return text + "es";
  if (text.back() == 'y' && size > 1 && !is_vowel(text[size - 2])) return text.substr(0, size - 1) + "ies";
  return text + "s";
}

}  // namespace longhaul::puzzles
