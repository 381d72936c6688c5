// The row loops of the fused heads: raw pointers and sizes, one thread, tokens [begin, end).
#pragma once

#include <array>
#include <cstdint>

#include "kernels/vector/storage.h"

namespace longhaul::kernels {

// Turns the pairs (j, j + pairs) of the first `rotated` heads of every row by the token's angles.
struct RotateHeads {
  Storage storage;
  int64_t rotated, head_dim, pairs;
  int64_t row;                  // elements of a token's heads
  const void *cos_tr, *sin_tr;  // [tokens, pairs], fp32 (fp64 for fp64 elements)
  void* x_thd;
};
void rotate_rows(const RotateHeads& problem, int64_t begin, int64_t end);

// The gradient of the fused heads: dq | dk | dv side by side, the rotated ones turned back.
struct GatherHeads {
  RotateHeads rotate;                        // x_thd is the destination
  std::array<const void*, 3> parts;          // each token's heads are contiguous …
  std::array<int64_t, 3> elements, strides;  // … so many of them, so far from the next token's
};
void gather_rows(const GatherHeads& problem, int64_t begin, int64_t end);

}  // namespace longhaul::kernels
