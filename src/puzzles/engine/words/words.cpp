#include "puzzles/engine/words/words.h"

#include <unordered_map>

#include "base/error.h"
#include "base/text/text.h"
#include "puzzles/engine/answers/answer.h"

namespace longhaul::puzzles {
namespace {

using WordMap = std::unordered_map<std::string, const Word*>;

std::string in_lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

// Both languages in one map: no English word is a Chinese one.
const WordMap& all_words() {
  static const WordMap map = [] {
    WordMap made;
    for (const auto table : {names(), colours(), places(), things()}) {
      for (const Word& word : table) {
        made.emplace(in_lower_case(word.english), &word);
        made.emplace(word.chinese, &word);
      }
    }
    return made;
  }();
  return map;
}

bool is_vowel(char c) { return std::string_view("aeiou").find(c) != std::string_view::npos; }

}  // namespace

std::optional<std::string_view> word_in(std::string_view english, Language language) {
  const auto found = all_words().find(in_lower_case(english));
  if (found == all_words().end() || found->second->english != english) return std::nullopt;
  return language == Language::kChinese ? found->second->chinese : found->second->english;
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
  const auto found = all_words().find(std::string(bare));
  if (found == all_words().end()) return std::nullopt;
  return found->second->english;
}

std::string with_article(std::string_view english) {
  if (english.starts_with("hour")) return fmt::format("an {}", english);  // its h is silent
  return fmt::format("{} {}", is_vowel(english[0]) ? "an" : "a", english);
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
