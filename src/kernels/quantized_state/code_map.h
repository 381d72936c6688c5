// CodeMap: the numbers that a byte of an 8-bit optimizer state stands for (dynamic tree quantisation:
// bitsandbytes, arXiv 2110.02861; docs/sources/optimizers.md §8). Seven decades below 1, each with twice the
// numbers of the one below: the midpoints of evenly spaced marks in (0.1, 1) times 10^(i − 6), 2^i of either
// sign in a signed map and 2^(i + 1) in an unsigned one; then 0 and 1. Sorted; a code is a place in the list.
// A number is kept as its code times the scale of its block (loops.h). Constant; thread-safe.
#pragma once

#include <array>
#include <cstdint>

namespace longhaul::kernels {

struct CodeMap {
  static constexpr int kCodes = 256;
  // Where a size x ≤ 1 lies among the sorted sizes: the bits of x in fp32 without the lowest 16, from those
  // of 2^-24 on, name a bin, and bins[bin] is the last size that is not above the bin. No bin holds two
  // sizes.
  static constexpr int32_t kFirstBin = (127 - 24) << 7, kBins = (24 << 7) + 1;

  std::array<float, kCodes> values{};     // of the codes, sorted
  std::array<float, kCodes + 1> sizes{};  // 0 and those above it, sorted; the last one twice
  std::array<int32_t, kBins> bins{};
  int32_t last_size = 0;      // place of 1
  int32_t last_negative = 0;  // place of the largest size that has a negative twin
  int32_t zero = 0;           // its code
};

const CodeMap& signed_map();
const CodeMap& unsigned_map();

}  // namespace longhaul::kernels
