// Cells of a grid as places 0, 1, 2, … (row by row): sets of them as bits, and which of them lie beside each
// other.
//
//   const Neighbours near(9, 9);
//   // the land that one reaches from place 40 across sides
//   const CellSet island = near.connected(40, land);
//
// Grids of at most 256 cells. Pure values; a Neighbours may be read from several threads.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "puzzles/engine/bits.h"

namespace longhaul::puzzles {

inline constexpr int64_t kMostCells = 256;

class CellSet {
 public:
  bool has(int64_t cell) const { return (words_[word(cell)] & bit(cell)) != 0; }
  void add(int64_t cell) { words_[word(cell)] |= bit(cell); }
  void remove(int64_t cell) { words_[word(cell)] &= ~bit(cell); }
  bool empty() const { return (words_[0] | words_[1] | words_[2] | words_[3]) == 0; }
  int64_t count() const {
    return bit_count(words_[0]) + bit_count(words_[1]) + bit_count(words_[2]) + bit_count(words_[3]);
  }
  int64_t first() const {  // -1: there is none
    for (size_t i = 0; i < words_.size(); ++i) {
      if (words_[i] != 0) return static_cast<int64_t>(i) * 64 + std::countr_zero(words_[i]);
    }
    return -1;
  }
  bool meets(const CellSet& other) const { return !(*this & other).empty(); }
  bool inside(const CellSet& other) const { return without(other).empty(); }
  CellSet without(const CellSet& other) const {
    return joined(other, [](uint64_t a, uint64_t b) { return a & ~b; });
  }
  CellSet operator&(const CellSet& other) const {
    return joined(other, [](uint64_t a, uint64_t b) { return a & b; });
  }
  CellSet operator|(const CellSet& other) const {
    return joined(other, [](uint64_t a, uint64_t b) { return a | b; });
  }
  CellSet& operator&=(const CellSet& other) { return *this = *this & other; }
  CellSet& operator|=(const CellSet& other) { return *this = *this | other; }
  bool operator==(const CellSet&) const = default;

  // Every cell, `places` further on or further back (1 to 63); what leaves the 256 places is lost.
  CellSet forward(int64_t places) const {
    CellSet out;
    for (size_t i = 0; i < words_.size(); ++i) {
      out.words_[i] = words_[i] << places | (i > 0 ? words_[i - 1] >> (64 - places) : 0);
    }
    return out;
  }
  CellSet backward(int64_t places) const {
    CellSet out;
    for (size_t i = 0; i < words_.size(); ++i) {
      out.words_[i] = words_[i] >> places | (i + 1 < words_.size() ? words_[i + 1] << (64 - places) : 0);
    }
    return out;
  }

  // Calls `each(cell)` in ascending order.
  template <class Each>
  void for_each(const Each& each) const {
    for (size_t i = 0; i < words_.size(); ++i) {
      for (uint64_t left = words_[i]; left != 0; left &= left - 1)
        each(static_cast<int64_t>(i) * 64 + std::countr_zero(left));
    }
  }
  std::vector<int64_t> cells() const {
    std::vector<int64_t> all;
    for_each([&](int64_t cell) { all.push_back(cell); });
    return all;
  }

 private:
  static size_t word(int64_t cell) { return static_cast<size_t>(cell / 64); }
  static uint64_t bit(int64_t cell) { return uint64_t{1} << (cell % 64); }
  template <class Join>
  CellSet joined(const CellSet& other, const Join& join) const {
    CellSet out;
    for (size_t i = 0; i < words_.size(); ++i) out.words_[i] = join(words_[i], other.words_[i]);
    return out;
  }

  std::array<uint64_t, kMostCells / 64> words_{};
};

class Neighbours {
 public:
  Neighbours(int64_t rows, int64_t columns);

  const CellSet& all() const { return all_; }
  // that share a side with it
  const CellSet& beside(int64_t cell) const { return beside_[static_cast<size_t>(cell)]; }
  // a side or a corner
  const CellSet& around(int64_t cell) const { return around_[static_cast<size_t>(cell)]; }
  // of the cells; some may be of them
  CellSet beside_any(const CellSet& cells) const;
  CellSet around_any(const CellSet& cells) const;
  // What one reaches from `from`, which is one of `within`, across sides and inside `within`.
  CellSet connected(int64_t from, const CellSet& within) const;
  CellSet touching(int64_t from, const CellSet& within) const;  // the same across sides and corners
  bool is_connected(const CellSet& cells) const;                // an empty set is

 private:
  int64_t columns_;
  CellSet all_, not_first_, not_last_;  // but for the first column, and but for the last
  std::vector<CellSet> beside_, around_;
};

}  // namespace longhaul::puzzles
