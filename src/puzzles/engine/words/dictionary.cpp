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
  const auto letter = [](std::string_view word) { return word[0]; };
  const std::span<const std::string_view> all = dictionary();
  return {std::ranges::lower_bound(all, first_letter, {}, letter),
          std::ranges::upper_bound(all, first_letter, {}, letter)};
}

}  // namespace longhaul::puzzles
