// WordCache: each thread's cache of short words and their ids: 2-way, of fixed size, so memory is bounded for
// any text. A word of up to 15 bytes is its own key (its bytes and length in 128 bits), so a hit needs two
// comparisons and no string.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace longhaul::data {

class WordCache {
 public:
  static constexpr size_t kLongest = 15;  // bytes of a word
  struct Key {
    uint64_t low, high;
  };

  // The calling thread's cache for that model; a fifth model replaces the oldest of the four caches.
  static WordCache& of_thread(uint64_t model) {
    thread_local std::array<WordCache, 4> caches;
    thread_local size_t last = 0;
    if (caches[last].model_ == model) return caches[last];
    for (size_t i = 0; i < caches.size(); ++i) {
      if (caches[i].model_ == model) return caches[last = i];
    }
    last = (last + 1) % caches.size();
    caches[last].entries_.assign(kEntries, Entry{});
    caches[last].model_ = model;
    return caches[last];
  }

  static Key key_of(std::string_view word) {
    Key key{0, 0};
    if (word.size() >= 8) {
      std::memcpy(&key.low, word.data(), 8);
      // The last eight bytes, shifted down so that only those beyond the first eight remain.
      std::memcpy(&key.high, word.data() + word.size() - 8, 8);
      key.high = word.size() == 8 ? 0 : key.high >> (8 * (16 - word.size()));
    } else {
      for (size_t i = 0; i < word.size(); ++i)
        key.low |= static_cast<uint64_t>(static_cast<uint8_t>(word[i])) << (8 * i);
    }
    key.high |= static_cast<uint64_t>(word.size()) << 56;
    return key;
  }

  bool find(const Key& key, std::vector<int32_t>& ids) const {
    const size_t at = slot(key);
    for (const size_t index : {at, at ^ 1}) {
      const Entry& entry = entries_[index];
      if (entry.key.low != key.low || entry.key.high != key.high) continue;
      const size_t before = ids.size();
      ids.resize(before + entry.count);
      std::copy_n(entry.ids, entry.count, ids.begin() + static_cast<std::ptrdiff_t>(before));
      return true;
    }
    return false;
  }

  void store(const Key& key, const int32_t* ids, size_t count) {
    if (count > std::size(Entry{}.ids)) return;
    const size_t at = slot(key);
    entries_[at ^ 1] = entries_[at];  // the older one moves over
    Entry& entry = entries_[at];
    entry.key = key;
    entry.count = static_cast<uint32_t>(count);
    std::copy_n(ids, count, entry.ids);  // of no ids too
  }

 private:
  static constexpr size_t kEntries = 1 << 14;
  struct Entry {  // one cache line
    Key key{0, 0};
    uint32_t count = 0;
    int32_t ids[11] = {};
  };
  static size_t slot(const Key& key) {
    uint64_t hash = (key.low ^ (key.high * 0x9E3779B97F4A7C15u)) * 0xD6E8FEB86659FD93u;
    hash ^= hash >> 32;
    hash *= 0xD6E8FEB86659FD93u;
    return hash >> (64 - 14);
  }

  uint64_t model_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace longhaul::data
