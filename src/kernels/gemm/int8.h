// The products of block.h with an eight-bit B (matmul/int8_weight.h), which is widened in registers while
// it is read from memory, because the speed of decoding is limited by reading B. Sums are, to the bit,
// those of the set's product with B as bf16 or fp32. B's panels are [packed_k(k)][16], zeros beyond the
// edges, for either type of A. For few rows the products take half the time of bf16 and a third of that of
// fp32 if B is in memory; for hundreds of rows they take the same time (bench/results/decode.md).
#pragma once

#include <cstdint>

namespace longhaul::kernels {

struct Int8Products {
  void (*multiply_bf16)(const uint16_t* a, int64_t lda, const int8_t* panels, int64_t m, int64_t n, int64_t k,
                        float* c, int64_t ldc, bool accumulate) = nullptr;
  void (*multiply_fp32)(const float* a, int64_t lda, const int8_t* panels, int64_t m, int64_t n, int64_t k,
                        float* c, int64_t ldc, bool accumulate) = nullptr;

  // By element type of A; null: the set has none, and B is widened in cache (int8/loops.h) for its own
  // product.
  auto multiply_of(uint16_t) const { return multiply_bf16; }
  auto multiply_of(float) const { return multiply_fp32; }
};

const Int8Products&
// of the set that block_kernels() names; empty where it has none: in AVX-512's alone, and of AMX in fp32
int8_products();

}  // namespace longhaul::kernels
