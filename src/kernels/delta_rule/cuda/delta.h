// This header declares what the kernels of delta_rule share. The writes of a chunk are U = diag(β) R, where
// R, what is left to write, solves one triangular system; in terms of R nothing is divided by β:
//
//   prepare    T = (1 + a diag(β))⁻¹, P = scale · p diag(β)     a_ij = Λ_ij k_i · k_j (j < i)
//                                                               p_ij = Λ_ij q_i · k_j (j ≤ i)
//   states     R = T (V − Λ_i0 K S);  S ← Λ_B0 S + (Λ_Bj β_j k_j)ᵀ R       along the chunks
//   outputs    O = scale · Λ_i0 Q S + P R
//
// with Λ_ij = Π_{j < s ≤ i} λ_s, and backward, with G the gradient of the state that leaves a chunk:
//
//   states     dR = Λ_Bj β_j K G + Pᵀ dO;  dV = Tᵀ dR;
//              G ← Λ_B0 G + (scale · Λ_i0 q_i)ᵀ dO − (Λ_i0 k_i)ᵀ dV      against them
//   gradients  of q, k, β and the decay (gradients.h)
//
// T, P, R, S and G are rounded to bf16 where they enter products, and so they lie in memory. T keeps its
// digits where keys are alike, because it is found in fp32; what it is multiplied with is a difference or a
// sum in fp32, of which only the part that T has off its diagonal is rounded: T − 1 lies in memory.
#pragma once

#include "kernels/delta_rule/cuda.h"
#include "kernels/linear_recurrence/cuda/run.h"

namespace longhaul::kernels::cuda {

struct Delta {
  Rows q, k, v, d_o;
  const float *beta, *log_decay, *initial;
  const Chunk* chunks;
  const int32_t* document_chunks;
  int heads;
  float scale;
  Bf16 *inverses, *scores;  // T − 1, P [chunks, H, kChunk, kChunk]
  Bf16* residuals;          // R [T, H, values]
  Bf16 *states, *d_states;  // S that enters, G of what leaves [chunks, H, keys, values]
};

LONGHAUL_DEVICE int64_t pairs_base(const Delta& in, int chunk, int head) {
  return (static_cast<int64_t>(chunk) * in.heads + head) * kTileValues;
}
LONGHAUL_DEVICE int64_t state_base(const Delta& in, int chunk, int head) {
  return (static_cast<int64_t>(chunk) * in.heads + head) * in.k.width * in.v.width;
}

// The decays and β of a chunk's tokens. Behind the chunk's end β is 0 and nothing decays.
struct DeltaDecays {
  float sums[kChunk];  // log2 Λ_i0
  float beta[kChunk];
  float begin[kChunk];   // Λ_i0
  float read[kChunk];    // scale · Λ_i0
  float end[kChunk];     // Λ_Bj
  float write[kChunk];   // β_j Λ_Bj
  float forget[kChunk];  // −Λ_i0
  float whole;           // Λ_B0
  float unused[3];
};

// By one warp.
LONGHAUL_DEVICE void read_decays(const Delta& in, const Chunk& chunk, int head, DeltaDecays& out) {
  const int lane = lane_index(), row = 2 * lane;
  float g[2], beta[2];
  LONGHAUL_UNROLL
  for (int i = 0; i < 2; ++i) {
    const bool inside = row + i < chunk.rows;
    const int64_t at = (chunk.first + row + i) * in.heads + head;
    g[i] = inside && in.log_decay != nullptr ? in_log2(in.log_decay[at]) : 0.f;
    beta[i] = inside ? in.beta[at] : 0.f;
  }
  const float inclusive = warp_inclusive_sum(g[0] + g[1]);
  const float neighbour = shuffle(inclusive, lane - 1);
  const float entering = lane == 0 ? 0.f : neighbour;
  const float all = shuffle(inclusive, kWarp - 1);
  const float sums[2] = {entering + g[0], inclusive};
  LONGHAUL_UNROLL
  for (int i = 0; i < 2; ++i) {
    const float begin = power_of_two(sums[i]), end = power_of_two(all - sums[i]);
    out.sums[row + i] = sums[i];
    out.beta[row + i] = beta[i];
    out.begin[row + i] = begin;
    out.read[row + i] = in.scale * begin;
    out.end[row + i] = end;
    out.write[row + i] = beta[i] * end;
    out.forget[row + i] = -begin;
  }
  if (lane == 0) out.whole = power_of_two(all);
}

// Λ_ij for j ≤ i, else 0. Selected before the exponential: above the diagonal the difference is positive and
// may overflow.
LONGHAUL_DEVICE float decay_between(const DeltaDecays& decays, int i, int j) {
  return power_of_two(j <= i ? decays.sums[i] - decays.sums[j] : negative_infinity());
}

// kChunk rows of `columns` channels from channel `first` on.
template <int kWidth>
LONGHAUL_DEVICE void load_rows(Tile<kWidth> tile, const Rows& rows, const Chunk& chunk, int head, int first) {
  load_tile<kChunk>(tile, rows.at(chunk.first, head) + first, rows.stride, chunk.rows, rows.width - first,
                    rows.aligned);
}
// T or P of a chunk.
LONGHAUL_DEVICE void load_pairs(Tile<kChunk> tile, const Delta& in, const Bf16* pairs, int chunk, int head) {
  load_tile<kChunk>(tile, pairs + pairs_base(in, chunk, head), kChunk, kChunk, kChunk, true);
}
// 64 × 64 of a chunk's state.
LONGHAUL_DEVICE void load_state(Tile<kSlice> tile, const Delta& in, const Bf16* states, int chunk, int head,
                                int key0, int value0) {
  load_tile<kSlice>(tile,
                    states + state_base(in, chunk, head) + static_cast<int64_t>(key0) * in.v.width + value0,
                    in.v.width, in.k.width - key0, in.v.width - value0, in.v.width % kUnit == 0);
}

// c += a · (16 rows of `right` from `depth` on, columns from `col0` on)
template <int kColumns, int kWidth>
LONGHAUL_DEVICE void add_product(float (&c)[kColumns][4], const FragmentA& a, Tile<kWidth> right, int depth,
                                 int col0) {
  LONGHAUL_UNROLL
  for (int column = 0; column < kColumns; column += 2) {
    FragmentB b[2];
    load_b_transposed(b, right, depth, col0 + column * 8);
    multiply_add(c[column], a, b[0]);
    multiply_add(c[column + 1], a, b[1]);
  }
}
// The same with the transpose of `right`: rows from `row0` on, 16 columns from `depth` on.
template <int kColumns, int kWidth>
LONGHAUL_DEVICE void add_product_transposed(float (&c)[kColumns][4], const FragmentA& a, Tile<kWidth> right,
                                            int row0, int depth) {
  LONGHAUL_UNROLL
  for (int column = 0; column < kColumns; column += 2) {
    FragmentB b[2];
    load_b(b, right, row0 + column * 8, depth);
    multiply_add(c[column], a, b[0]);
    multiply_add(c[column + 1], a, b[1]);
  }
}

// body(value, row, column) of sixteen rows of accumulators.
template <int kColumns, class Body>
LONGHAUL_DEVICE void each_place(float (&c)[kColumns][4], int row0, int col0, const Body& body) {
  LONGHAUL_UNROLL
  for (int column = 0; column < kColumns; ++column) {
    LONGHAUL_UNROLL
    for (int i = 0; i < 4; ++i) {
      const Place place = c_place(lane_index(), i);
      body(c[column][i], row0 + place.row, col0 + column * 8 + place.col);
    }
  }
}
// Sixteen rows of accumulators to a tile, rounded.
template <int kColumns, int kWidth>
LONGHAUL_DEVICE void put_rows(Tile<kWidth> tile, int row0, int col0, const float (&c)[kColumns][4]) {
  LONGHAUL_UNROLL
  for (int column = 0; column < kColumns; ++column) {
    LONGHAUL_UNROLL
    for (int half = 0; half < 2; ++half) {
      const Place place = c_place(lane_index(), 2 * half);
      *reinterpret_cast<uint32_t*>(tile.at(row0 + place.row, col0 + column * 8 + place.col)) =
          pack(c[column][2 * half], c[column][2 * half + 1]);
    }
  }
}

template <int kColumns>
LONGHAUL_DEVICE void clear(float (&c)[kColumns][4]) {
  LONGHAUL_UNROLL
  for (int column = 0; column < kColumns; ++column) {
    LONGHAUL_UNROLL
    for (int i = 0; i < 4; ++i) c[column][i] = 0;
  }
}

}  // namespace longhaul::kernels::cuda
