#include "data/tokenizer/word_counts.h"

#include <algorithm>

namespace longhaul::data {

void WordCounts::grow() {
  std::vector<Slot> old(std::max<size_t>(1 << 14, slots_.size() * 2));
  old.swap(slots_);
  used_ = 0;
  for (const Slot& slot : old) {
    if (slot.count > 0) add(slot.key, slot.count);
  }
}

std::vector<WordCounts::Counted> WordCounts::sorted() const {
  std::vector<Slot> shorts;
  shorts.reserve(used_);
  for (const Slot& slot : slots_) {
    if (slot.count > 0) shorts.push_back(slot);
  }
  std::ranges::sort(shorts, [](const Slot& a, const Slot& b) {
    return a.key.high != b.key.high ? a.key.high < b.key.high : a.key.low < b.key.low;
  });
  std::vector<Counted> words;
  words.reserve(shorts.size() + long_.size());
  for (const Slot& slot : shorts) {
    std::string word(slot.key.high >> 56, '\0');
    for (size_t i = 0; i < word.size(); ++i) {
      word[i] = static_cast<char>(i < 8 ? slot.key.low >> (8 * i) : slot.key.high >> (8 * (i - 8)));
    }
    words.push_back({std::move(word), slot.count});
  }
  const size_t first_long = words.size();
  for (const auto& [word, count] : long_) words.push_back({word, count});
  std::sort(words.begin() + static_cast<std::ptrdiff_t>(first_long), words.end(),
            [](const Counted& a, const Counted& b) { return a.word < b.word; });
  return words;
}

}  // namespace longhaul::data
