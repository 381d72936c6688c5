// Code that the kernels of attention share: where operands lie, the arguments of a launch, the mask, products
// of tiles and the step of the softmax.
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

// s[16 × kScores·8] = rows row0 … of `a` times all rows of `b`, over kHead columns.
template <int kHead, int kScores>
LONGHAUL_DEVICE void multiply_rows(float (&s)[kScores][4], Tile<kHead> a, int row0, Tile<kHead> b) {
  LONGHAUL_UNROLL
  for (int column = 0; column < kScores; ++column) {
    LONGHAUL_UNROLL
    for (int i = 0; i < 4; ++i) s[column][i] = 0;
  }
  LONGHAUL_ROLL
  for (int key = 0; key < kHead; key += 16) {
    const FragmentA left = load_a(a, row0, key);
    LONGHAUL_UNROLL
    for (int column = 0; column < kScores / 2; ++column) {
      FragmentB right[2];
      load_b(right, b, column * 16, key);
      multiply_add(s[2 * column], left, right[0]);
      multiply_add(s[2 * column + 1], left, right[1]);
    }
  }
}

// out[16 × kColumns·8] += p[16 × kScores·8] · rows of `b`, columns col0 …
template <int kHead, int kColumns, int kScores>
LONGHAUL_DEVICE void multiply_columns(float (&out)[kColumns][4], const float (&p)[kScores][4], Tile<kHead> b,
                                      int col0) {
  LONGHAUL_UNROLL
  for (int row = 0; row < kScores / 2; ++row) {
    const FragmentA left = as_a(p[2 * row], p[2 * row + 1]);
    LONGHAUL_UNROLL
    for (int column = 0; column < kColumns; column += 2) {
      FragmentB right[2];
      load_b_transposed(right, b, row * 16, col0 + column * 8);
      multiply_add(out[column], left, right[0]);
      multiply_add(out[column + 1], left, right[1]);
    }
  }
}

// One step of the online softmax: s becomes p; largest m, sum l and the output so far are brought to the new
// largest.
template <int kColumns, int kScores>
LONGHAUL_DEVICE void softmax_step(float (&s)[kScores][4], float (&largest)[2], float (&sum)[2],
                                  float (&o)[kColumns][4]) {
  LONGHAUL_UNROLL
  for (int half = 0; half < 2; ++half) {
    float top = largest[half];
    LONGHAUL_UNROLL
    for (int column = 0; column < kScores; ++column)
      top = fmaxf(top, fmaxf(s[column][2 * half], s[column][2 * half + 1]));
    top = fmaxf(top, shuffle_xor(top, 1));
    top = fmaxf(top, shuffle_xor(top, 2));
    const float base = top == negative_infinity() ? 0.f : top;  // nothing visible yet: −∞ − −∞ would be NaN
    const float shrink = power_of_two(largest[half] - base);
    largest[half] = top;
    sum[half] *= shrink;
    LONGHAUL_UNROLL
    for (int column = 0; column < kColumns; ++column) {
      o[column][2 * half] *= shrink;
      o[column][2 * half + 1] *= shrink;
    }
    LONGHAUL_UNROLL
    for (int column = 0; column < kScores; ++column) {
      LONGHAUL_UNROLL
      for (int i = 0; i < 2; ++i) {
        float& x = s[column][2 * half + i];
        x = power_of_two(x - base);
        sum[half] += x;  // of this lane's columns; the quad is added up at the end
      }
    }
  }
}

}  // namespace
}  // namespace longhaul::kernels::cuda
