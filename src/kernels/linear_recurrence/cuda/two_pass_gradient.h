// Gradients of q, k and of the decay in the two-pass form (two_pass.h). With P_ij = scale · do_i · v_j, S
// entering and D leaving a chunk:
//
//   dq_i = scale · Λ(0 → i) ⊙ (S do_i) + Σ_{j ≤ i} P_ij Λ(j → i) ⊙ k_j
//   dk_j = Λ(j → m) ⊙ (D v_j) + Σ_{i ≥ j} P_ij Λ(j → i) ⊙ q_i
//   dg_t = Λ(0 → m) ⊙ rowsum(S ⊙ D) + everything that flows from before t to t or later
//
// At each level of halving, G = (P where tokens are partners) F holds for a right token what it reads, for a
// left one what it gives: times its own factor that is the level's part of dq or dk. What crosses t at a
// level starts in the left half and ends in the right half of t's block, so its part of dg is a sum within
// one half: q ⊙ dq over the tokens from t on, where t is right, k ⊙ dk over those before t, where it is left.
// The parts through S and D are alike, with the whole chunk as the right, or left, half. Nothing is
// subtracted, so nothing cancels, and where λ_t is 0 every term is 0.
#pragma once

#include "kernels/linear_recurrence/cuda/two_pass.h"

namespace longhaul::kernels::cuda {

struct GradientPass {
  Bf16 *d_q, *d_k;
  float* d_k_fp32;  // instead of d_k, where it is not null: [T, H, keys]; neither for tied keys
  // kChannelToken: the gradient; else sums over the slice's channels [slices, T, H]; or null: not wanted
  float* d_decay;
  Bf16* d_logits;     // instead of d_decay, of a gate per channel with bf16 logits
  float* bound_sums;  // of a gate's γ [chunks, H, keys]; or null: not wanted
};
LONGHAUL_HD bool wants_decay(const GradientPass& pass) {
  return pass.d_decay != nullptr || pass.d_logits != nullptr;
}

// What a thread gathers for its channel and quarter of the tokens.
struct ColumnGradients {
  float q[kQuarter], k[kQuarter], decay[kQuarter];
};

// Sixteen rows and 32 columns of accumulators to G.
LONGHAUL_DEVICE void put(float* g, const float (&x)[4][4]) {
  LONGHAUL_UNROLL
  for (int column = 0; column < 4; ++column) {
    LONGHAUL_UNROLL
    for (int i = 0; i < 4; ++i) {
      const Place place = c_place(lane_index(), i);
      g[(warp_index() % 4 * 16 + place.row) * kPadded + warp_index() / 4 * 32 + column * 8 + place.col] =
          x[column][i];
    }
  }
}

// P of the warp's 16 rows and 32 columns, both triangles, so that every level finds what it needs in rows.
LONGHAUL_DEVICE void put_pairs(Tile<kSlice> p, const float (&x)[4][4], float scale) {
  LONGHAUL_UNROLL
  for (int column = 0; column < 4; ++column) {
    LONGHAUL_UNROLL
    for (int i = 0; i < 4; ++i) {
      const Place place = c_place(lane_index(), i);
      const int row = warp_index() % 4 * 16 + place.row, col = warp_index() / 4 * 32 + column * 8 + place.col;
      if (col > row) continue;
      *p.at(row, col) = *p.at(col, row) = from_float<Bf16>(scale * x[column][i]);
    }
  }
}

// The sums over values: P = do vᵀ, do Sᵀ, v Dᵀ of the warp's 16 rows and 32 columns, and rowsum(S ⊙ D) of the
// thread's channel.
struct ValueSums {
  float pairs[4][4], reads[4][4], writes[4][4], dot;
};
LONGHAUL_DEVICE void add_values(ValueSums& sums, Tile<kSlice> d_o, Tile<kSlice> v, Tile<kSlice> state,
                                Tile<kSlice> d_state) {
  const int row0 = warp_index() % 4 * 16, col0 = warp_index() / 4 * 32;
  LONGHAUL_ROLL
  for (int value = 0; value < kSlice; value += 16) {
    const FragmentA of_o = load_a(d_o, row0, value), of_v = load_a(v, row0, value);
    LONGHAUL_UNROLL
    for (int column = 0; column < 4; column += 2) {
      FragmentB b[2];
      load_b(b, v, col0 + column * 8, value);
      multiply_add(sums.pairs[column], of_o, b[0]);
      multiply_add(sums.pairs[column + 1], of_o, b[1]);
      load_b(b, state, col0 + column * 8, value);
      multiply_add(sums.reads[column], of_o, b[0]);
      multiply_add(sums.reads[column + 1], of_o, b[1]);
      load_b(b, d_state, col0 + column * 8, value);
      multiply_add(sums.writes[column], of_v, b[0]);
      multiply_add(sums.writes[column + 1], of_v, b[1]);
    }
  }
  const Column mine = column_of_thread();
  LONGHAUL_UNROLL
  for (int unit = 0; unit < kQuarter; unit += kUnit) {
    const Unit a = *reinterpret_cast<const Unit*>(state.at(mine.channel, mine.first + unit));
    const Unit b = *reinterpret_cast<const Unit*>(d_state.at(mine.channel, mine.first + unit));
    LONGHAUL_UNROLL
    for (int i = 0; i < 4; ++i)
      sums.dot += low_half(a.word[i]) * low_half(b.word[i]) + high_half(a.word[i]) * high_half(b.word[i]);
  }
}

// G of a level: (P where tokens are partners) F.
LONGHAUL_DEVICE void level_products(float (&x)[4][4], Tile<kSlice> p, Tile<kSlice> rows, int level) {
  const int row_tile = warp_index() % 4, col0 = warp_index() / 4 * 32;
  for (int other = 0; other < 4; ++other) {
    if (!tiles_meet(row_tile, other, level)) continue;
    FragmentA a = load_a(p, row_tile * 16, other * 16);
    LONGHAUL_UNROLL
    for (int reg = 0; reg < 4; ++reg) {
      const Place low = a_place(lane_index(), reg, 0), high = a_place(lane_index(), reg, 1);
      const uint32_t keep = level >= 4 ? 0xffffffffu
                                       : (tokens_meet(low.row, low.col, level) ? 0xffffu : 0u) |
                                             (tokens_meet(high.row, high.col, level) ? 0xffff0000u : 0u);
      a.reg[reg] &= keep;
    }
    LONGHAUL_UNROLL
    for (int column = 0; column < 4; column += 2) {
      FragmentB b[2];
      load_b_transposed(b, rows, other * 16, col0 + column * 8);
      multiply_add(x[column], a, b[0]);
      multiply_add(x[column + 1], a, b[1]);
    }
  }
}

// The parts through S: reads of the chunk's tokens, weighted Λ(0 → t). Returns the quarter's sum of q ⊙ dq.
LONGHAUL_DEVICE float take_reads(ColumnGradients& sums, const float* g, const float* lambda, Tile<kSlice> q,
                                 const Column& mine, float scale) {
  float f = scale, running = 0;
  for (int t = 0; t < mine.first; ++t) f *= lambda[t * kSlice];
  LONGHAUL_UNROLL
  for (int i = 0; i < kQuarter; ++i) {
    f *= lambda[(mine.first + i) * kSlice];
    sums.q[i] = f * g[(mine.first + i) * kPadded + mine.channel];
  }
  LONGHAUL_UNROLL
  for (int i = kQuarter - 1; i >= 0; --i) {
    running += to_float(*q.at(mine.first + i, mine.channel)) * sums.q[i];
    sums.decay[i] = running;
  }
  return running;
}
// The parts through D: what the chunk's tokens give, weighted Λ(t → m). Returns the quarter's sum of k ⊙ dk.
LONGHAUL_DEVICE float take_writes(ColumnGradients& sums, const float* g, const float* lambda, Tile<kSlice> k,
                                  const Column& mine) {
  float f = 1, running = 0;
  for (int t = kChunk - 1; t >= mine.first + kQuarter; --t) f *= lambda[t * kSlice];
  LONGHAUL_UNROLL
  for (int i = kQuarter - 1; i >= 0; --i) {
    sums.k[i] = f * g[(mine.first + i) * kPadded + mine.channel];
    f *= lambda[(mine.first + i) * kSlice];
  }
  LONGHAUL_UNROLL
  for (int i = 0; i < kQuarter; ++i) {
    sums.decay[i] += running;
    running += to_float(*k.at(mine.first + i, mine.channel)) * sums.k[i];
  }
  return running;
}
// A level's parts. Returns the sum of the quarter's last half, which the other quarter of that half needs at
// the first level.
LONGHAUL_DEVICE float take_level(ColumnGradients& sums, const float* g, Tile<kSlice> q, Tile<kSlice> k,
                                 int level, const Column& mine, const float (&factor)[kQuarter]) {
  const int half = 1 << level;
  float running = 0;
  LONGHAUL_UNROLL
  for (int i = kQuarter - 1; i >= 0; --i) {
    const int t = mine.first + i;
    if ((t & half) == 0) continue;
    if ((t & (half - 1)) == half - 1) running = 0;
    const float x = factor[i] * g[t * kPadded + mine.channel];
    sums.q[i] += x;
    running += to_float(*q.at(t, mine.channel)) * x;
    sums.decay[i] += running;
  }
  LONGHAUL_UNROLL
  for (int i = 0; i < kQuarter; ++i) {
    const int t = mine.first + i;
    if ((t & half) != 0) continue;
    if ((t & (half - 1)) == 0) running = 0;
    const float x = factor[i] * g[t * kPadded + mine.channel];
    sums.k[i] += x;
    sums.decay[i] += running;
    running += to_float(*k.at(t, mine.channel)) * x;
  }
  return running;
}

// What the other quarters' tokens add to the gradient of the decay of these: `sums` are [reads, writes, first
// level][quarter][channel].
LONGHAUL_DEVICE float of_other_quarters(const float* sums, const Column& mine) {
  const int quarter = mine.first / kQuarter;
  float sum = 0;
  for (int other = 0; other < 4; ++other) {
    if (other > quarter) sum += sums[other * kSlice + mine.channel];
    if (other < quarter) sum += sums[(4 + other) * kSlice + mine.channel];
  }
  if (quarter == 1) sum += sums[(8 + 0) * kSlice + mine.channel];  // left: what comes before
  if (quarter == 2) sum += sums[(8 + 3) * kSlice + mine.channel];  // right: what comes after
  return sum;
}

LONGHAUL_DEVICE void store_gradients(const TwoPass& in, const GradientPass& pass, const Chunk& chunk,
                                     const ChunkedBlock& place, const Column& mine,
                                     const ColumnGradients& sums) {
  const int channel = place.slice * kSlice + mine.channel;
  if (channel >= in.q.width) return;
  LONGHAUL_UNROLL
  for (int i = 0; i < kQuarter; ++i) {
    if (mine.first + i >= chunk.rows) continue;
    const int64_t at = (token_of(in, chunk, mine.first + i) * in.heads + place.head) * in.q.width + channel;
    pass.d_q[at] = from_float<Bf16>(sums.q[i]);
    if (pass.d_k_fp32 != nullptr) {
      pass.d_k_fp32[at] = sums.k[i];
    } else if (!tied(in)) {
      pass.d_k[at] = from_float<Bf16>(sums.k[i]);
    }
    if (!wants_decay(pass) || in.kind != DecayKind::kChannelToken) continue;
    float d_log = sums.decay[i];
    if (gated(in.gate))
      d_log *= gate_slope(in.gate, logit_at(in.gate, in.log_decay, at), bound_of(in, place.head, channel));
    if (pass.d_logits != nullptr) {
      pass.d_logits[at] = from_float<Bf16>(d_log);
    } else {
      pass.d_decay[at] = d_log;
    }
  }
}

// What the chunk gives a gate's γ, by way of [4][kSlice] floats.
LONGHAUL_DEVICE void store_bound_sums(const TwoPass& in, const GradientPass& pass, const Chunk& chunk,
                                      const ChunkedBlock& place, const Column& mine,
                                      const ColumnGradients& sums, float* of_quarters) {
  const int channel = place.slice * kSlice + mine.channel;
  const bool inside = channel < in.q.width;
  float sum = 0;
  LONGHAUL_UNROLL
  for (int i = 0; i < kQuarter; ++i) {
    if (!inside || mine.first + i >= chunk.rows) continue;
    const Logit x = logit_of(in, token_of(in, chunk, mine.first + i), place.head, channel);
    sum += sums.decay[i] * bound_slope(in.gate, x, bound_of(in, place.head, channel));
  }
  __syncthreads();
  of_quarters[mine.first / kQuarter * kSlice + mine.channel] = sum;
  __syncthreads();
  if (mine.first != 0 || !inside) return;
  for (int quarter = 1; quarter < 4; ++quarter) sum += of_quarters[quarter * kSlice + mine.channel];
  pass.bound_sums[(static_cast<int64_t>(place.part) * in.heads + place.head) * in.q.width + channel] = sum;
}

// A scalar decay: the sum over the slice's channels, for each token, by way of G.
LONGHAUL_DEVICE void store_channel_sums(const TwoPass& in, const GradientPass& pass, const Chunk& chunk,
                                        const ChunkedBlock& place, const Column& mine,
                                        const ColumnGradients& sums, float* g, int64_t tokens) {
  __syncthreads();
  LONGHAUL_UNROLL
  for (int i = 0; i < kQuarter; ++i) g[(mine.first + i) * kPadded + mine.channel] = sums.decay[i];
  __syncthreads();
  const int row = static_cast<int>(threadIdx.x) / 4, part = static_cast<int>(threadIdx.x) % 4;
  float sum = 0;
  for (int c = 0; c < kSlice / 4; ++c) sum += g[row * kPadded + c * 4 + part];
  sum += shuffle_xor(sum, 1);
  sum += shuffle_xor(sum, 2);
  if (part == 0 && row < chunk.rows)
    pass.d_decay[(place.slice * tokens + token_of(in, chunk, row)) * in.heads + place.head] = sum;
}

// A block: a chunk, a head, a slice of the keys.
LONGHAUL_KERNEL_OF_TWO(kTwoPassThreads) gradients_kernel(TwoPass in, GradientPass pass, int64_t tokens) {
  LONGHAUL_SHARED(shared);
  constexpr GradientShared kShared = gradient_shared();
  const ChunkedBlock place = chunked_block(blockIdx.x, in.heads, slices_of(in.q.width));
  const Chunk chunk = in.chunks[place.part];
  const int head = place.head;
  const Tile<kSlice> q{reinterpret_cast<Bf16*>(shared)}, k{q.data + kTileValues}, p{q.data + 2 * kTileValues},
      rows{reinterpret_cast<Bf16*>(shared + kShared.rows)};
  float *lambda = reinterpret_cast<float*>(shared + kShared.lambda),
        *others = reinterpret_cast<float*>(shared + kShared.sums);
  float *dots = reinterpret_cast<float*>(shared + kShared.dots),
        *g = reinterpret_cast<float*>(shared + kShared.g);
  const auto tile = [&](int step, int which) {
    return Tile<kSlice>{reinterpret_cast<Bf16*>(shared + kShared.stage) +
                        (step % 2 * 4 + which) * kTileValues};
  };
  const int steps = slices_of(in.v.width);
  const auto load = [&](int step) {
    if (step < steps) {
      load_chunk(tile(step, 0), in, in.d_o, chunk, head, step);
      load_chunk(tile(step, 1), in, in.v, chunk, head, step);
      load_state(tile(step, 2), in, in.states, place.part, head, place.slice, step);
      load_state(tile(step, 3), in, in.d_states, place.part, head, place.slice, step);
    }
    end_copy_group();
  };
  load_slice(q, k, lambda, in, chunk, head, place.slice);
  load(0);
  ValueSums values = {};
  for (int step = 0; step < steps; ++step) {
    load(step + 1);
    wait_for_copies<1>();
    __syncthreads();
    add_values(values, tile(step, 0), tile(step, 1), tile(step, 2), tile(step, 3));
    __syncthreads();
  }
  wait_for_copies<0>();

  const Column mine = column_of_thread();
  const int mine_of_quarters = mine.first / kQuarter * kSlice + mine.channel;
  float* const of_channel = lambda + mine.channel;
  ColumnGradients sums;
  put_pairs(p, values.pairs, in.scale);
  put(g, values.reads);
  dots[mine_of_quarters] = values.dot;
  __syncthreads();
  others[mine_of_quarters] = take_reads(sums, g, of_channel, q, mine, in.scale);
  __syncthreads();
  put(g, values.writes);
  __syncthreads();
  others[4 * kSlice + mine_of_quarters] = take_writes(sums, g, of_channel, k, mine);
  LONGHAUL_UNROLL
  for (int i = 0; i < kQuarter; ++i) {
    const int t = mine.first + i;
    const float pair = to_float(*p.at(t, t));
    sums.q[i] += pair * to_float(*k.at(t, mine.channel));
    sums.k[i] += pair * to_float(*q.at(t, mine.channel));
  }
  LONGHAUL_ROLL
  for (int level = kLevels - 1; level >= 0; --level) {
    float factor[kQuarter], x[4][4] = {};
    level_factors(of_channel, level, mine.first, factor);
    fill_level(rows, q, k, level, mine, factor);
    __syncthreads();
    level_products(x, p, rows, level);
    put(g, x);
    __syncthreads();
    const float sum = take_level(sums, g, q, k, level, mine, factor);
    if (level == kLevels - 1) others[8 * kSlice + mine_of_quarters] = sum;
  }
  if (wants_decay(pass)) {
    float through = 0, total = 1;
    for (int quarter = 0; quarter < 4; ++quarter) through += dots[quarter * kSlice + mine.channel];
    for (int t = 0; t < kChunk; ++t) total *= of_channel[t * kSlice];
    const float added = total * through + of_other_quarters(others, mine);
    LONGHAUL_UNROLL
    for (int i = 0; i < kQuarter; ++i) {
      sums.decay[i] += added;
      if (tied(in)) sums.decay[i] -= of_channel[(mine.first + i) * kSlice] * sums.k[i];  // k = 1 − λ
    }
  }
  if (pass.bound_sums != nullptr) store_bound_sums(in, pass, chunk, place, mine, sums, others);
  store_gradients(in, pass, chunk, place, mine, sums);
  if (pass.d_decay != nullptr && in.kind != DecayKind::kChannelToken)
    store_channel_sums(in, pass, chunk, place, mine, sums, g, tokens);
}

// Adds up the slices [slices, T, H] of the gradient of a decay per token and head; of a gate the gradient of
// its logits, in bf16 where out_bf16 is not null.
LONGHAUL_KERNEL(256)
slice_sum_kernel(const float* x, RecurrenceGate gate, const float* log_decay, float* out, Bf16* out_bf16,
                 int64_t count, int slices) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (i >= count) return;
  float sum = 0;
  for (int slice = 0; slice < slices; ++slice) sum += x[slice * count + i];
  if (gated(gate)) sum *= gate_slope(gate, logit_at(gate, log_decay, i), 0.f);
  if (out_bf16 != nullptr) {
    out_bf16[i] = from_float<Bf16>(sum);
  } else {
    out[i] = sum;
  }
}
// The gradient of γ: over the chunks, in order.
LONGHAUL_KERNEL(256) bound_sum_kernel(const float* x, float* out, int64_t count, int chunks) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (i >= count) return;
  double sum = 0;
  for (int chunk = 0; chunk < chunks; ++chunk) sum += x[chunk * count + i];
  out[i] = static_cast<float>(sum);
}
// And over the tokens, for a decay per head: a block a head, in fp64, in an order that only depends on the
// sizes.
LONGHAUL_KERNEL(256) token_sum_kernel(const float* x, float* out, int64_t rows, int heads) {
  LONGHAUL_SHARED(shared);
  double* of_thread = reinterpret_cast<double*>(shared);
  double sum = 0;
  for (int64_t row = threadIdx.x; row < rows; row += 256) sum += x[row * heads + blockIdx.x];
  of_thread[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int i = 1; i < 256; ++i) sum += of_thread[i];
  out[blockIdx.x] = static_cast<float>(sum);
}

}  // namespace longhaul::kernels::cuda
