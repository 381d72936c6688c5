// The forward pass on Hopper, after FlashAttention-3 (arXiv 2407.08608): two warp groups compute, 64 queries each, and one loads.
//
// A warp group that computes issues the scores of step j and the product of step j − 1's probabilities with its values together, and
// does the softmax of step j while the latter is under way. The two take turns at issuing (named barriers), so that one's softmax falls
// under the other's products. Keys and values come in two stages each, filled by two warps each.
//
// Tiles are filled by cp.async, not by TMA: rows beyond a document must be zeros (a box of a tensor map ends where the tensor ends, not
// where a document does, and 0 · NaN of a neighbour is NaN), and the driver's encoding of a tensor map cannot be checked without a GPU.
// The loading group waits for its own copies, fences them for the tensor cores, and only then says that a stage is full.
#pragma once

#include "kernels/attention/wgmma_parts.h"

namespace longhaul::kernels::cuda {
namespace {

// What a block is about: kept in shared memory, as the warp groups that compute need their registers.
struct WgmmaWork {
  AttentionTile tile;
  int head, key_head, first_key, steps;
};
static_assert(sizeof(WgmmaWork) <= kWgmmaWorkBytes);
LONGHAUL_DEVICE WgmmaWork wgmma_work(const Arguments& in) {
  const unsigned last = gridDim.x - 1 - blockIdx.x;  // late tiles of a causal document see most keys: they begin first
  WgmmaWork work{in.tiles[last / static_cast<unsigned>(in.heads)], static_cast<int>(last % static_cast<unsigned>(in.heads)), 0, 0, 0};
  work.key_head = work.head / in.group;
  const Range range = keys_of_tile(work.tile, in.window);
  work.first_key = range.first / kWgmmaKeys * kWgmmaKeys;
  work.steps = range.last > range.first ? static_cast<int>(divide_up(range.last - work.first_key, kWgmmaKeys)) : 0;
  return work;
}

template <int kHead>
struct WgmmaShared {
  using Rows = Panels<kWgmmaKeys, kHead>;
  static_assert(Rows::kBytes == wgmma_tile_bytes(kHead) && query_rows(kHead) == kWgmmaKeys);
  unsigned char* base;

  LONGHAUL_DEVICE Rows tile(int index) const { return {reinterpret_cast<Bf16*>(base + index * Rows::kBytes)}; }
  LONGHAUL_DEVICE Rows q() const { return tile(0); }
  LONGHAUL_DEVICE Rows k(int step) const { return tile(1 + step % kWgmmaStages); }
  LONGHAUL_DEVICE Rows v(int step) const { return tile(1 + kWgmmaStages + step % kWgmmaStages); }
  LONGHAUL_DEVICE PhaseBarrier* barriers(int kind) const {
    return reinterpret_cast<PhaseBarrier*>(base + (1 + 2 * kWgmmaStages) * Rows::kBytes) + kind * kWgmmaStages;
  }
  LONGHAUL_DEVICE PhaseBarrier& full(bool values, int step) const { return barriers(values ? 1 : 0)[step % kWgmmaStages]; }
  LONGHAUL_DEVICE PhaseBarrier& empty(bool values, int step) const { return barriers(values ? 3 : 2)[step % kWgmmaStages]; }
  LONGHAUL_DEVICE WgmmaWork& work() const { return *reinterpret_cast<WgmmaWork*>(barriers(4)); }
};

// By two warps, the keys or the values of all steps.
template <bool kValues, int kHead>
LONGHAUL_DEVICE void load_steps(const Arguments& in, const WgmmaShared<kHead>& shared, const WgmmaWork& work) {
  constexpr int kThreads = kGroup / 2;
  LONGHAUL_ROLL
  for (int step = 0; step < work.steps; ++step) {
    const int use = step / kWgmmaStages, key = work.first_key + step * kWgmmaKeys;
    if (use > 0) shared.empty(kValues, step).wait(use - 1);
    load_panels<kWgmmaKeys, kThreads>(kValues ? shared.v(step) : shared.k(step), kValues ? in.v : in.k, work.tile.other_begin + key,
                                      work.key_head, 0, work.tile.others - key, static_cast<int>(threadIdx.x) % kThreads);
    finish_panels();
    shared.full(kValues, step).arrive();
  }
}

// s becomes p with sums in `sum`; what is older must be multiplied by `shrink`. scale is in units of log 2.
template <int kColumns>
LONGHAUL_DEVICE void softmax_of(float (&s)[kColumns][4], float (&largest)[2], float (&sum)[2], float (&shrink)[2], float scale) {
  LONGHAUL_UNROLL
  for (int half = 0; half < 2; ++half) {
    float top = largest[half];
    LONGHAUL_UNROLL
    for (int column = 0; column < kColumns; ++column) top = fmaxf(top, fmaxf(s[column][2 * half], s[column][2 * half + 1]));
    top = fmaxf(top, shuffle_xor(top, 1));
    top = fmaxf(top, shuffle_xor(top, 2));
    const float base = top == negative_infinity() ? 0.f : top * scale;  // nothing visible yet: −∞ − −∞ would be NaN
    shrink[half] = power_of_two(largest[half] * scale - base);
    largest[half] = top;
    sum[half] *= shrink[half];
    LONGHAUL_UNROLL
    for (int column = 0; column < kColumns; ++column) {
      LONGHAUL_UNROLL
      for (int i = 2 * half; i < 2 * half + 2; ++i) {
        s[column][i] = power_of_two(fmaf(s[column][i], scale, -base));
        sum[half] += s[column][i];  // of this lane's columns; the quad is added up at the end
      }
    }
  }
}

// What a warp group that computes holds.
template <int kHead>
struct WgmmaRows {
  float s[kWgmmaKeys / 8][4], o[kHead / 8][4], largest[2], sum[2], shrink[2];
  FragmentA p[kWgmmaKeys / 16];

  LONGHAUL_DEVICE void issue_scores(const WgmmaShared<kHead>& shared, int group, int step) {
    group_multiply<false>(s, shared.q().of_rows(group * kGroupRows, 0), shared.k(step).of_rows(0, 0));
    LONGHAUL_UNROLL
    for (int k = 16; k < kHead; k += 16) group_multiply<true>(s, shared.q().of_rows(group * kGroupRows, k), shared.k(step).of_rows(0, k));
    wgmma_commit();
  }
  LONGHAUL_DEVICE void issue_values(const WgmmaShared<kHead>& shared, int step) {
    LONGHAUL_UNROLL
    for (int row = 0; row < kWgmmaKeys / 16; ++row) group_multiply_add(o, p[row], shared.v(step).of_columns(row * 16));
    wgmma_commit();
  }
  LONGHAUL_DEVICE void take_scores(const Arguments& in, const WgmmaWork& work, int group, int step) {
    const int first = group * kGroupRows, key = work.first_key + step * kWgmmaKeys;
    if (!sees_all<false>(work.tile, first, kGroupRows, key, kWgmmaKeys, in.window))
      mask_scores(s, work.tile, first + warp_index() % 4 * 16, key, in.window);
    softmax_of(s, largest, sum, shrink, in.scale * kLog2E);
  }
  LONGHAUL_DEVICE void take_probabilities() {
    LONGHAUL_UNROLL
    for (int row = 0; row < kWgmmaKeys / 16; ++row) p[row] = as_a(s[2 * row], s[2 * row + 1]);
  }
};

template <int kHead>
LONGHAUL_DEVICE void walk_steps(const Arguments& in, const WgmmaShared<kHead>& shared, const WgmmaWork& work, int group,
                                WgmmaRows<kHead>& rows) {
  const int turn = kTurnBarrier + group, other_turn = kTurnBarrier + kComputeGroups - 1 - group;
  if (group == 1 && work.steps > 1) named_barrier_arrive(other_turn, kComputeGroups * kGroup);  // group 0 begins
  shared.full(false, 0).wait(0);
  wgmma_fence();
  rows.issue_scores(shared, group, 0);
  wgmma_wait<0>();
  hold(rows.s);
  release(shared.empty(false, 0));
  rows.take_scores(in, work, group, 0);
  rows.take_probabilities();
  LONGHAUL_ROLL
  for (int step = 1; step < work.steps; ++step) {
    shared.full(false, step).wait(step / kWgmmaStages);
    shared.full(true, step - 1).wait((step - 1) / kWgmmaStages);
    named_barrier_meet(turn, kComputeGroups * kGroup);
    hold(rows.p);
    hold(rows.o);
    wgmma_fence();
    rows.issue_scores(shared, group, step);
    rows.issue_values(shared, step - 1);
    if (group == 0 || step + 1 < work.steps) named_barrier_arrive(other_turn, kComputeGroups * kGroup);
    wgmma_wait<1>();
    hold(rows.s);
    release(shared.empty(false, step));
    rows.take_scores(in, work, group, step);
    wgmma_wait<0>();
    hold(rows.o);
    hold(rows.p);
    release(shared.empty(true, step - 1));
    scale_rows(rows.o, rows.shrink);
    rows.take_probabilities();
  }
  shared.full(true, work.steps - 1).wait((work.steps - 1) / kWgmmaStages);
  hold(rows.p);
  hold(rows.o);
  wgmma_fence();
  rows.issue_values(shared, work.steps - 1);
  wgmma_wait<0>();
  hold(rows.o);
}

template <int kHead>
LONGHAUL_DEVICE void compute_rows(const Arguments& in, const WgmmaShared<kHead>& shared, const WgmmaWork& work, int group) {
  const int row0 = group * kGroupRows + warp_index() % 4 * 16;
  WgmmaRows<kHead> rows;
  LONGHAUL_UNROLL
  for (int half = 0; half < 2; ++half) {
    rows.largest[half] = negative_infinity();
    rows.sum[half] = 0;
  }
  LONGHAUL_UNROLL
  for (int column = 0; column < kHead / 8; ++column) {
    LONGHAUL_UNROLL
    for (int i = 0; i < 4; ++i) rows.o[column][i] = 0;
  }
  if (work.steps > 0) {
    load_panels<kGroupRows, kGroup>(shared.q(), in.q, work.tile.begin, work.head, group * kGroupRows, work.tile.rows,
                                    static_cast<int>(threadIdx.x) % kGroup);
    finish_panels();
    named_barrier_meet(kGroupBarrier + group, kGroup);
    walk_steps(in, shared, work, group, rows);
    named_barrier_meet(kGroupBarrier + group, kGroup);  // q is about to be written over: the products of all four warps are done
  }
  float inverse[2];
  LONGHAUL_UNROLL
  for (int half = 0; half < 2; ++half) {
    float sum = rows.sum[half];
    sum += shuffle_xor(sum, 1);
    sum += shuffle_xor(sum, 2);
    inverse[half] = sum > 0 ? 1.f / sum : 0.f;
    const int row = row0 + c_place(lane_index(), 2 * half).row;
    if (lane_index() % 4 == 0 && row < work.tile.rows) {
      in.logsumexp_out[(work.tile.begin + row) * in.heads + work.head] =
          sum > 0 ? rows.largest[half] * in.scale + logf(sum) : negative_infinity();
    }
  }
  scale_rows(rows.o, inverse);
  store_panels(shared.q(), row0, rows.o, work.tile.rows, in.v.width,
               [&](int row) { return in.o + ((work.tile.begin + row) * in.heads + work.head) * in.v.width; });
}

template <int kHead>
LONGHAUL_KERNEL_OF_ONE(kWgmmaThreads)
forward_wgmma_kernel(Arguments in) {
#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __trap();  // attention_forward_wgmma does not come here
#else
  LONGHAUL_SHARED(raw);
  const WgmmaShared<kHead> shared{aligned_to_pattern(raw)};
  if (threadIdx.x == 0) {
    shared.work() = wgmma_work(in);
    for (int stage = 0; stage < kWgmmaStages; ++stage) {
      for (const bool values : {false, true}) {
        shared.full(values, stage).initialise(kGroup / 2);
        shared.empty(values, stage).initialise(kComputeWarps);
      }
    }
  }
  __syncthreads();
  const int group = static_cast<int>(threadIdx.x) / kGroup;
  if (group == 0) {
    give_registers<kLoadRegisters>();
    if (static_cast<int>(threadIdx.x) < kGroup / 2) {
      load_steps<false>(in, shared, shared.work());
    } else {
      load_steps<true>(in, shared, shared.work());
    }
  } else {
    take_registers<kComputeRegisters>();
    compute_rows(in, shared, shared.work(), group - 1);
  }
#endif
}

}  // namespace
}  // namespace longhaul::kernels::cuda
