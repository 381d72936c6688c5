#include "puzzles/engine/words/dictionary.h"

#include <algorithm>
#include <array>
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
  static const auto table = [] {
    const auto letter = [](std::string_view word) { return word[0]; };
    std::array<std::span<const std::string_view>, 26> made;
    for (char first = 'a'; first <= 'z'; ++first)
      made[static_cast<size_t>(first - 'a')] = std::ranges::equal_range(dictionary(), first, {}, letter);
    return made;
  }();
  return table.at(static_cast<size_t>(first_letter - 'a'));
}

}  // namespace longhaul::puzzles
