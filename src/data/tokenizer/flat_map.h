// FlatMap: an open-addressing hash map from 64-bit keys to small values, for the merge table and the
// trainer's pair counts: usually one probe suffices. Keys must not be ~0. Not thread-safe while inserting.
#pragma once

#include <cstdint>
#include <vector>

namespace longhaul::data {

inline uint64_t mix_bits(uint64_t key) {
  key ^= key >> 32;
  key *= 0xD6E8FEB86659FD93u;
  key ^= key >> 32;
  key *= 0xD6E8FEB86659FD93u;
  return key ^ key >> 32;
}

inline uint64_t pair_key(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

template <class Value>
class FlatMap {
 public:
  explicit FlatMap(size_t expected = 0) { rehash(expected); }

  const Value* find(uint64_t key) const {
    for (size_t at = mix_bits(key) & mask_;; at = (at + 1) & mask_) {
      if (slots_[at].key == key) return &slots_[at].value;
      if (slots_[at].key == kEmpty) return nullptr;
    }
  }
  Value& operator[](uint64_t key) {
    if ((size_ + 1) * 2 > slots_.size()) rehash(slots_.size());
    Slot& slot = place(key);
    if (slot.key == kEmpty) {
      slot.key = key;
      ++size_;
    }
    return slot.value;
  }
  size_t size() const { return size_; }

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};
  struct Slot {
    uint64_t key = kEmpty;
    Value value{};
  };
  Slot& place(uint64_t key) {
    size_t at = mix_bits(key) & mask_;
    while (slots_[at].key != key && slots_[at].key != kEmpty) at = (at + 1) & mask_;
    return slots_[at];
  }
  void rehash(size_t expected) {
    size_t count = 16;
    while (count < expected * 2 + 2) count *= 2;
    std::vector<Slot> old(count);
    old.swap(slots_);
    mask_ = count - 1;
    for (Slot& slot : old) {
      if (slot.key != kEmpty) place(slot.key) = std::move(slot);
    }
  }

  std::vector<Slot> slots_;
  size_t mask_ = 0;
  size_t size_ = 0;
};

}  // namespace longhaul::data
