// Code that the forward and backward kernels of attention share: where operands lie, the arguments of a
// launch, the mask.
#pragma once

#include "kernels/attention/cuda.h"
#include "kernels/cuda/mma.h"

namespace longhaul::kernels::cuda {
namespace {

struct Side {  // [tokens, heads, width]
  const Bf16* data;
  int heads, width;
  bool aligned;
  LONGHAUL_DEVICE const Bf16* at(int64_t token, int head) const {
    return data + (token * heads + head) * width;
  }
  LONGHAUL_DEVICE int64_t stride() const { return static_cast<int64_t>(heads) * width; }
};

struct Arguments {
  Side q, k, v, d_o;
  Bf16 *o, *d_q, *d_k, *d_v;
  float* logsumexp_out;
  const float *logsumexp, *row_dots;  // [T, H]
  const AttentionTile* tiles;
  int heads, group, window;
  float scale;
};

// Masks scores of 16 queries (from row0 of the tile) against keys first_key …
template <int kColumns>
LONGHAUL_DEVICE void mask_scores(float (&s)[kColumns][4], const AttentionTile& tile, int row0, int first_key,
                                 int window) {
  LONGHAUL_UNROLL
  for (int half = 0; half < 2; ++half) {
    const int row = row0 + c_place(lane_index(), 2 * half).row;
    const Range range =
        row < tile.rows ? visible_keys(tile.first + row, tile.shift, tile.others, window) : Range{0, 0};
    LONGHAUL_UNROLL
    for (int column = 0; column < kColumns; ++column) {
      LONGHAUL_UNROLL
      for (int i = 0; i < 2; ++i) {
        const int key = first_key + column * 8 + c_place(lane_index(), i).col;
        if (key < range.first || key >= range.last) s[column][2 * half + i] = negative_infinity();
      }
    }
  }
}

}  // namespace
}  // namespace longhaul::kernels::cuda
