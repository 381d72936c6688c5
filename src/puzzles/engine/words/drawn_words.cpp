#include "puzzles/engine/words/drawn_words.h"

#include <algorithm>

#include "puzzles/engine/words/dictionary.h"

namespace longhaul::puzzles {

std::vector<std::string_view> drawn_words(int64_t count, int64_t shared_percent, Draw& draw) {
  constexpr size_t kShared = 3;  // letters
  std::vector<std::string_view> words;
  int again = 0;  // words in a row that were there already: the dictionary may have no more that are alike
  while (static_cast<int64_t>(words.size()) < count) {
    std::span<const std::string_view> among =
        dictionary_of(static_cast<char>('a' + static_cast<char>(draw.below(26))));
    if (!words.empty() && again < 8 && draw.chance(shared_percent)) {
      const auto begins = [](std::string_view word) { return word.substr(0, kShared); };
      const std::string_view beginning = begins(draw.pick(words));
      among = std::ranges::equal_range(dictionary_of(beginning[0]), beginning, {}, begins);
    }
    const std::string_view word = draw.pick(among);
    if (std::ranges::find(words, word) != words.end()) {
      ++again;
      continue;
    }
    again = 0;
    words.push_back(word);
  }
  draw.shuffle(words);
  return words;
}

}  // namespace longhaul::puzzles
