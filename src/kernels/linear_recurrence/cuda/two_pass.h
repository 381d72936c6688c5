// The two-pass form of linear_recurrence (docs/sources/linear-attention.md §2, TWO-PASS), for every kind of
// decay and for its gradient. One pass writes the state that enters each chunk of 64 tokens, others compute
// all chunks at once:
//
//   prepare    q̃ = scale · q ⊙ Λ(0 → i), k̃ = k ⊙ Λ(i → m), Λ(0 → m)        Λ(j → i) = Π_{j < s ≤ i} λ_s,
//                                                                            per key channel, m tokens
//   states     S ← Λ(0 → m) ⊙ S + k̃ᵀ v along the chunks; backward D ← Λ(0 → m) ⊙ D + q̃ᵀ do against them
//   outputs    o = q̃ S + scale · A v;   dv = k̃ D + scale · Aᵀ do                A_ij = Σ_c q_ic Λ_c(j → i)
//                                                                                 k_jc for j ≤ i
//   gradients  dq, dk and the gradient of the decay (two_pass_gradient.h)
//
// A by halving, as on the CPU (cpu_channel.cpp), but down to single tokens: at the level of `half` = 32, 16 …
// 1, token t belongs to the right (t & half) or the left half of a block of 2 · half tokens, and Λ(j → i) =
// Λ(j → r) Λ(r → i) with r the last token of the left. So one row a token, q ⊙ Λ(r → t) or k ⊙ Λ(t → r),
// holds what the level needs of it: products of factors ≤ 1, no exponential of a difference, no division.
// Scores of the level are F Fᵀ where the tokens are partners: (i ^ j) >> level == 1.
#pragma once

#include "kernels/linear_recurrence/cuda/run.h"

namespace longhaul::kernels::cuda {

struct TwoPass {
  Rows q, k, v, d_o;
  DecayKind kind;
  const float* log_decay;
  RecurrenceGate gate;
  const Segment* segments;  // in the order of the problem
  const Chunk* chunks;
  const int32_t *segment_chunks, *document_segments;
  int segment_count, chunk_count, documents, heads;
  bool reverse;
  float scale;
  Rows q_scaled, k_scaled;  // q̃, k̃ [T, H, keys]
  float* decays;            // Λ(0 → m) [chunks, H, keys]
  Bf16 *states, *d_states;  // S entering, D leaving each chunk [chunks, H, keys, values]
  float* segment_states;    // [segments, H, keys, values]: what enters each, on the way of a pass
  float* segment_decays;    // [segments, H, keys]
};

LONGHAUL_DEVICE int64_t token_of(const TwoPass& in, const Chunk& chunk, int row) {
  return in.reverse ? chunk.first - row : chunk.first + row;
}
LONGHAUL_HD bool tied(const TwoPass& in) { return in.k.data == nullptr; }
LONGHAUL_DEVICE int64_t decay_place(const TwoPass& in, int64_t token, int head, int channel) {
  return in.kind == DecayKind::kHead        ? head
         : in.kind == DecayKind::kHeadToken ? token * in.heads + head
                                            : (token * in.heads + head) * in.q.width + channel;
}
LONGHAUL_DEVICE Logit logit_of(const TwoPass& in, int64_t token, int head, int channel) {
  return logit_at(in.gate, in.log_decay, decay_place(in, token, head, channel));
}
LONGHAUL_DEVICE float bound_of(const TwoPass& in, int head, int channel) {
  return bound_at(in.gate, head * in.q.width + channel);
}
LONGHAUL_DEVICE float key_of(const TwoPass& in, int64_t token, int head, int channel) {
  if (!tied(in)) return to_float(in.k.at(token, head)[channel]);
  if (gated(in.gate))
    return gate_key(in.gate, logit_of(in, token, head, channel), bound_of(in, head, channel));
  return tied_key(in.log_decay[decay_place(in, token, head, channel)]);
}
LONGHAUL_DEVICE float decay_of(const TwoPass& in, int64_t token, int head, int channel) {
  if (in.kind == DecayKind::kNone) return 1.f;
  if (gated(in.gate))
    return gate_decay(in.gate, logit_of(in, token, head, channel), bound_of(in, head, channel));
  return power_of_two(in_log2(in.log_decay[decay_place(in, token, head, channel)]));
}

// One slice of a chunk's rows to a shared tile; rows and columns that are not there become zero.
LONGHAUL_DEVICE void load_chunk(Tile<kSlice> tile, const TwoPass& in, const Rows& rows, const Chunk& chunk,
                                int head, int slice) {
  load_tile<kChunk>(tile, rows.at(chunk.first, head) + slice * kSlice,
                    in.reverse ? -rows.stride : rows.stride, chunk.rows, rows.width - slice * kSlice,
                    rows.aligned);
}
LONGHAUL_DEVICE int64_t state_base(const TwoPass& in, int chunk, int head) {
  return (static_cast<int64_t>(chunk) * in.heads + head) * in.q.width * in.v.width;
}
LONGHAUL_DEVICE void load_state(Tile<kSlice> tile, const TwoPass& in, const Bf16* states, int chunk, int head,
                                int key_slice, int value_slice) {
  const Bf16* first = states + state_base(in, chunk, head) +
                      static_cast<int64_t>(key_slice) * kSlice * in.v.width + value_slice * kSlice;
  load_tile<kSlice>(tile, first, in.v.width, in.q.width - key_slice * kSlice,
                    in.v.width - value_slice * kSlice, in.v.width % kUnit == 0);
}

// A thread's channel and the first of its kQuarter tokens, where a block of kTwoPassThreads walks down the
// channels of a slice.
struct Column {
  int channel, first;
};
LONGHAUL_DEVICE Column column_of_thread() {
  return {static_cast<int>(threadIdx.x) % kSlice, static_cast<int>(threadIdx.x) / kSlice * kQuarter};
}

// q, k and λ of the slice's tokens and channels; λ, [kChunk][kSlice], is 1 where there are none. Ends a copy
// group.
LONGHAUL_DEVICE void load_slice(Tile<kSlice> q, Tile<kSlice> k, float* lambda, const TwoPass& in,
                                const Chunk& chunk, int head, int slice) {
  load_chunk(q, in, in.q, chunk, head, slice);
  if (!tied(in)) load_chunk(k, in, in.k, chunk, head, slice);
  end_copy_group();
  const Column mine = column_of_thread();
  const int channel = slice * kSlice + mine.channel;
  for (int t = mine.first; t < mine.first + kQuarter; ++t) {
    const bool inside = t < chunk.rows && channel < in.q.width;
    lambda[t * kSlice + mine.channel] = inside ? decay_of(in, token_of(in, chunk, t), head, channel) : 1.f;
    if (tied(in))
      *k.at(t, mine.channel) =
          from_float<Bf16>(inside ? key_of(in, token_of(in, chunk, t), head, channel) : 0.f);
  }
}

// Λ between each of the thread's tokens and the middle r of its block at this level; `lambda` points at the
// thread's channel.
LONGHAUL_DEVICE void level_factors(const float* lambda, int level, int first, float (&factor)[kQuarter]) {
  const int half = 1 << level;
  float f = 1;
  if ((first & half) != 0) {
    for (int t = first & ~(half - 1); t < first; ++t) f *= lambda[t * kSlice];
  }
  LONGHAUL_UNROLL
  for (int i = 0; i < kQuarter; ++i) {
    const int t = first + i;
    if ((t & half) == 0) continue;
    if ((t & (half - 1)) == 0) f = 1;
    f *= lambda[t * kSlice];
    factor[i] = f;
  }
  f = 1;
  if ((first & half) == 0) {
    for (int t = first | (half - 1); t >= first + kQuarter; --t) f *= lambda[t * kSlice];
  }
  LONGHAUL_UNROLL
  for (int i = kQuarter - 1; i >= 0; --i) {
    const int t = first + i;
    if ((t & half) != 0) continue;
    if ((t & (half - 1)) == half - 1) f = 1;
    factor[i] = f;
    f *= lambda[t * kSlice];
  }
}

// The level's rows F of the slice.
LONGHAUL_DEVICE void fill_level(Tile<kSlice> rows, Tile<kSlice> q, Tile<kSlice> k, int level,
                                const Column& mine, const float (&factor)[kQuarter]) {
  LONGHAUL_UNROLL
  for (int i = 0; i < kQuarter; ++i) {
    const int t = mine.first + i;
    const Bf16 x = *((t >> level & 1) != 0 ? q : k).at(t, mine.channel);
    *rows.at(t, mine.channel) = from_float<Bf16>(to_float(x) * factor[i]);
  }
}

}  // namespace longhaul::kernels::cuda
