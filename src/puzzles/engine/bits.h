// Counting bits without a call: std::popcount is a function of the compiler's library where the processor is
// not known to have the instruction.
#pragma once

#include <cstdint>

namespace longhaul::puzzles {

inline int bit_count(uint64_t bits) {
  bits -= bits >> 1 & 0x5555555555555555;
  bits = (bits & 0x3333333333333333) + (bits >> 2 & 0x3333333333333333);
  return static_cast<int>(((bits + (bits >> 4)) & 0x0F0F0F0F0F0F0F0F) * 0x0101010101010101 >> 56);
}

inline bool is_single_bit(uint64_t bits) { return bits != 0 && (bits & (bits - 1)) == 0; }

}  // namespace longhaul::puzzles
