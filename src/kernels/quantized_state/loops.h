// Converts between wide and narrow optimizer states (docs/sources/optimizers.md §8): a run of a row in fp32
// or fp64 becomes bf16, or 8-bit codes (code_map.h) and one scale, and wide again. Raw pointers, one
// thread; compiled for several instruction sets, which all give the same bits.
//
// Rounding is stochastic: to one of the two neighbours, up with the probability that makes the mean right,
// so that small steps of a moving average are not lost. The choice is a pure function of (key, place in the
// run): a key is drawn from a named stream for every run and step. The scale is the number with the largest
// absolute value, with its sign, so that this number is restored exactly. Numbers must be finite.
#pragma once

#include <cstdint>

namespace longhaul::kernels {

inline constexpr int64_t kMostNarrow = 256;  // elements of a run at most

enum class Signs { kBoth, kPositive };  // kPositive: no number is below 0, and one above 0 does not become 0

template <class Real>
struct NarrowLoops {
  void (*widen)(const uint16_t* bf16, int64_t count, Real* to) = nullptr;
  // `first`: the place of from[0] among the elements that `key` is for.
  void (*narrow)(const Real* from, int64_t count, uint64_t key, int64_t first, uint16_t* bf16) = nullptr;
  void (*decode)(const uint8_t* codes, float scale, int64_t count, Signs signs, Real* to) = nullptr;
  // the scale
  float (*encode)(const Real* from, int64_t count, Signs signs, uint64_t key, uint8_t* codes) = nullptr;
};

template <class Real>
const NarrowLoops<Real>& narrow_loops();  // of the set that block_kernels() names

}  // namespace longhaul::kernels
