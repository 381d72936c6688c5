#include "puzzles/engine/words/dictionary.h"

#include <algorithm>
#include <vector>

namespace longhaul::puzzles {

std::span<const std::string_view> dictionary() {
  static const std::vector<std::string_view> words = [] {
    std::vector<std::string_view> all;
    for (size_t begin = 0; begin < kDictionaryText.size();) {
      const size_t end = kDictionaryText.find(' ', begin);
      all.push_back(kDictionaryText.substr(begin, end - begin));
      begin = end + 1;
    }
    return all;
  }();
  return words;
}

std::span<const std::string_view> dictionary_of(char first_letter) {
  const auto of_letter = std::ranges::equal_range(dictionary(), first_letter, {}, [](std::string_view word) { return word[0]; });
  return {of_letter.begin(), of_letter.end()};
}

}  // namespace longhaul::puzzles
