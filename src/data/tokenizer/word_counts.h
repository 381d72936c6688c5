// WordCounts: counts of distinct words, for the tokenizer's trainer. Words of up to 15 bytes (nearly all) are
// their own keys. One thread at a time; the counts of several threads are added afterwards.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/tokenizer/bpe.h"
#include "data/tokenizer/flat_map.h"
#include "data/tokenizer/word_cache.h"

namespace longhaul::data {

class WordCounts {
 public:
  void add(std::string_view word, int64_t count = 1) {
    if (word.size() <= WordCache::kLongest) {
      add(WordCache::key_of(word), count);
    } else if (const auto found = long_.find(word); found != long_.end()) {
      found->second += count;
    } else {
      long_.emplace(word, count);
    }
  }
  void add(const WordCounts& other) {
    for (const Slot& slot : other.slots_) {
      if (slot.count > 0) add(slot.key, slot.count);
    }
    for (const auto& [word, count] : other.long_) add(word, count);
  }
  struct Counted {
    std::string word;
    int64_t count;
  };
  std::vector<Counted> sorted() const;  // in an order that depends only on the words

 private:
  struct Slot {
    WordCache::Key key{0, 0};
    int64_t count = 0;
  };
  static size_t hash(const WordCache::Key& key) { return mix_bits(key.low ^ mix_bits(key.high)); }
  void add(const WordCache::Key& key, int64_t count) {
    if ((used_ + 1) * 2 > slots_.size()) grow();
    size_t at = hash(key) & (slots_.size() - 1);
    while (slots_[at].count != 0 && (slots_[at].key.low != key.low || slots_[at].key.high != key.high))
      at = (at + 1) & (slots_.size() - 1);
    used_ += slots_[at].count == 0;
    slots_[at].key = key;
    slots_[at].count += count;
  }
  void grow();

  std::vector<Slot> slots_;
  size_t used_ = 0;
  std::unordered_map<std::string, int64_t, TextHash, std::equal_to<>> long_;
};

}  // namespace longhaul::data
