// The functions of BlockKernels by element type, bf16 as its bits or fp32, for code that is written once for both.
#pragma once

#include "kernels/block/block.h"

namespace longhaul::kernels {

template <class Element>
struct BlockOf;

template <>
struct BlockOf<uint16_t> {
  static constexpr auto kPack = &BlockKernels::pack_bf16;
  static constexpr auto kMultiply = &BlockKernels::multiply_bf16;
  static constexpr auto kTranspose = &BlockKernels::transpose_bf16;
  static int64_t panel_rows(int64_t k) { return packed_k(k); }
};

template <>
struct BlockOf<float> {
  static constexpr auto kPack = &BlockKernels::pack_fp32;
  static constexpr auto kMultiply = &BlockKernels::multiply_fp32;
  static constexpr auto kTranspose = &BlockKernels::transpose_fp32;
  static int64_t panel_rows(int64_t k) { return k; }
};

}  // namespace longhaul::kernels
