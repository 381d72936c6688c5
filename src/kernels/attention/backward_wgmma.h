// The backward pass on Hopper: the two kernels of cuda.cu with products by warp groups. A block owns 128 rows, keys or queries, 64 for each
// of two warp groups, and walks over tiles of 64 of the other side, which a third warp group loads two stages ahead.
//
//   of keys     Sᵀ = k qᵀ, dPᵀ = v doᵀ;  dv += Pᵀ do,  dk += dSᵀ q      own: k, v      others: q, do
//   of queries  S  = q kᵀ, dP  = do vᵀ;                dq += dS k       own: q, do     others: k, v
//
// A tile of the other side is an operand of both products, by its rows in the first and by its columns in the second. dv's product runs under
// the computation of dS, dk's (dq's) under the next step's first products. Each gradient has one writer; nothing is added atomically.
#pragma once

#include "kernels/attention/wgmma_parts.h"

namespace longhaul::kernels::cuda {
namespace {

constexpr int kOtherRows = kWgmmaOtherRows;

struct GradientWork {
  AttentionTile tile;
  int key_head, first_head, heads;  // query heads first_head … first_head + heads − 1 of key_head
  int first, per_head, steps;       // others of a head begin at `first`
};
static_assert(sizeof(GradientWork) <= kWgmmaWorkBytes);

template <bool kOfKeys>
LONGHAUL_DEVICE GradientWork gradient_work(const Arguments& in) {
  const int key_heads = in.heads / in.group, columns = kOfKeys ? key_heads : in.heads;
  // The first keys of a causal document are seen by most queries, and the last queries see most keys: they begin first.
  const int index = static_cast<int>(kOfKeys ? blockIdx.x : gridDim.x - 1 - blockIdx.x), column = index % columns;
  GradientWork work{};
  work.tile = in.tiles[index / columns];
  work.key_head = kOfKeys ? column : column / in.group;
  work.first_head = kOfKeys ? column * in.group : column;
  work.heads = kOfKeys ? in.group : 1;
  const Range range = kOfKeys ? queries_of_tile(work.tile, in.window) : keys_of_tile(work.tile, in.window);
  work.first = range.first / kOtherRows * kOtherRows;
  work.per_head = range.last > range.first ? static_cast<int>(divide_up(range.last - work.first, kOtherRows)) : 0;
  work.steps = work.per_head * work.heads;
  return work;
}

template <bool kOfKeys, int kHead>
struct GradientShared {
  using Own = Panels<2 * kGroupRows, kHead>;
  using Others = Panels<kOtherRows, kHead>;
  unsigned char* base;

  LONGHAUL_DEVICE Own own(int which) const { return {reinterpret_cast<Bf16*>(base + which * Own::kBytes)}; }
  LONGHAUL_DEVICE Others others(int which, int step) const {
    return {reinterpret_cast<Bf16*>(base + 2 * Own::kBytes + (step % kWgmmaStages * 2 + which) * Others::kBytes)};
  }
  LONGHAUL_DEVICE float* values(int which, int step) const {  // of a step's queries: log-sum-exp, do·o − dℓ
    float* const first = reinterpret_cast<float*>(base + 2 * Own::kBytes + 2 * kWgmmaStages * Others::kBytes);
    return first + (step % kWgmmaStages * 2 + which) * kOtherRows;
  }
  LONGHAUL_DEVICE PhaseBarrier& full(int step) const {
    return reinterpret_cast<PhaseBarrier*>(values(0, 0) + 2 * kWgmmaStages * kOtherRows)[step % kWgmmaStages];
  }
  LONGHAUL_DEVICE PhaseBarrier& empty(int step) const { return (&full(0))[kWgmmaStages + step % kWgmmaStages]; }
  LONGHAUL_DEVICE GradientWork& work() const { return *reinterpret_cast<GradientWork*>(&full(0) + 2 * kWgmmaStages); }
};

template <bool kOfKeys, int kHead>
LONGHAUL_DEVICE void load_others(const Arguments& in, const GradientShared<kOfKeys, kHead>& shared, const GradientWork& work) {
  const int thread = static_cast<int>(threadIdx.x) % kGroup;
  LONGHAUL_ROLL
  for (int step = 0; step < work.steps; ++step) {
    const int head = work.first_head + step / work.per_head, other = work.first + step % work.per_head * kOtherRows;
    const int rows = work.tile.others - other;
    const int64_t token = work.tile.other_begin + other;
    if (step >= kWgmmaStages) shared.empty(step).wait(step / kWgmmaStages - 1);
    load_panels<kOtherRows, kGroup>(shared.others(0, step), kOfKeys ? in.q : in.k, token, kOfKeys ? head : work.key_head, 0, rows, thread);
    load_panels<kOtherRows, kGroup>(shared.others(1, step), kOfKeys ? in.d_o : in.v, token, kOfKeys ? head : work.key_head, 0, rows,
                                    thread);
    if (kOfKeys && thread % kOtherRows < rows) {
      const int64_t at = (token + thread % kOtherRows) * in.heads + head;
      shared.values(thread / kOtherRows, step)[thread % kOtherRows] = thread < kOtherRows ? in.logsumexp[at] * kLog2E : in.row_dots[at];
    }
    finish_panels();
    shared.full(step).arrive();
  }
}

// What a warp group that computes holds: s becomes p, then dS; d_first is dk or dq, d_second dv.
template <bool kOfKeys, int kHead>
struct GradientRows {
  float s[kOtherRows / 8][4], d_p[kOtherRows / 8][4], d_first[kHead / 8][4], d_second[kOfKeys ? kHead / 8 : 1][4];
  FragmentA p[kOtherRows / 16], d_s[kOtherRows / 16];
  float logsumexp[2], row_dot[2];  // of own rows that are queries

  LONGHAUL_DEVICE void clear() {
    LONGHAUL_UNROLL
    for (int i = 0; i < kHead / 2; ++i) d_first[i / 4][i % 4] = 0;
    LONGHAUL_UNROLL
    for (int i = 0; kOfKeys && i < kHead / 2; ++i) d_second[i / 4][i % 4] = 0;
  }
  LONGHAUL_DEVICE void issue_scores(float (&c)[kOtherRows / 8][4], const GradientShared<kOfKeys, kHead>& shared, int which, int group,
                                    int step) {
    group_multiply<false>(c, shared.own(which).of_rows(group * kGroupRows, 0), shared.others(which, step).of_rows(0, 0));
    LONGHAUL_UNROLL
    for (int k = 16; k < kHead; k += 16)
      group_multiply<true>(c, shared.own(which).of_rows(group * kGroupRows, k), shared.others(which, step).of_rows(0, k));
    wgmma_commit();
  }
  // p = 2^(s − log-sum-exp), 0 where nothing is seen.
  LONGHAUL_DEVICE void take_scores(const Arguments& in, const GradientShared<kOfKeys, kHead>& shared, const GradientWork& work, int group,
                                   int step) {
    const int other = work.first + step % work.per_head * kOtherRows, row0 = group * kGroupRows + warp_index() % 4 * 16;
    const float* of_columns = shared.values(0, step);
    const float scale = in.scale * kLog2E;
    const bool all = sees_all<kOfKeys>(work.tile, group * kGroupRows, kGroupRows, other, kOtherRows, in.window);
    Range seen[2];
    LONGHAUL_UNROLL
    for (int half = 0; half < 2; ++half) {
      seen[half] = all ? Range{0, work.tile.others} : seen_by<kOfKeys>(work.tile, row0 + c_place(lane_index(), 2 * half).row, in.window);
    }
    LONGHAUL_UNROLL
    for (int i = 0; i < kOtherRows / 2; ++i) {
      const int half = i % 4 / 2, col = i / 4 * 8 + c_place(lane_index(), i % 4).col;
      float& x = s[i / 4][i % 4];
      const bool inside = other + col >= seen[half].first && other + col < seen[half].last;
      x = inside ? power_of_two(x * scale - (kOfKeys ? of_columns[col] : logsumexp[half])) : 0.f;
    }
  }
  // s = p (dP − do·o); where p is 0 the rest may be anything.
  LONGHAUL_DEVICE void take_gradients(const GradientShared<kOfKeys, kHead>& shared, int step) {
    const float* of_columns = shared.values(1, step);
    LONGHAUL_UNROLL
    for (int i = 0; i < kOtherRows / 2; ++i) {
      float& x = s[i / 4][i % 4];
      const float dot = kOfKeys ? of_columns[i / 4 * 8 + c_place(lane_index(), i % 4).col] : row_dot[i % 4 / 2];
      x = x == 0.f ? 0.f : x * (d_p[i / 4][i % 4] - dot);
    }
  }
};

template <int kCount>
LONGHAUL_DEVICE void pack_operand(FragmentA (&a)[kCount], const float (&x)[2 * kCount][4]) {
  LONGHAUL_UNROLL
  for (int i = 0; i < kCount; ++i) a[i] = as_a(x[2 * i], x[2 * i + 1]);
}
template <int kColumns, class Others>
LONGHAUL_DEVICE void issue_columns(float (&c)[kColumns][4], const FragmentA (&a)[kOtherRows / 16], Others others) {
  LONGHAUL_UNROLL
  for (int k = 0; k < kOtherRows / 16; ++k) group_multiply_add(c, a[k], others.of_columns(k * 16));
  wgmma_commit();
}

template <bool kOfKeys, int kHead>
LONGHAUL_DEVICE void walk_others(const Arguments& in, const GradientShared<kOfKeys, kHead>& whole, const GradientWork& work, int group,
                                 GradientRows<kOfKeys, kHead>& rows) {
  constexpr bool kRoom = !kOfKeys || kHead <= 64;  // registers for dP beside the scores, and for a product that runs into the next step
  LONGHAUL_ROLL
  for (int step = 0; step < work.steps; ++step) {
    const GradientShared<kOfKeys, kHead> shared{unknown(whole.base)};
    shared.full(step).wait(step / kWgmmaStages);
    wgmma_fence();
    rows.issue_scores(rows.s, shared, 0, group, step);
    if constexpr (kRoom) rows.issue_scores(rows.d_p, shared, 1, group, step);
    wgmma_wait<kRoom ? 1 : 0>();  // for all but dP
    hold(rows.s);
    hold(rows.d_s);
    if (kRoom && step > 0) release(shared.empty(step - 1));
    rows.take_scores(in, shared, work, group, step);
    if constexpr (kOfKeys) {
      pack_operand(rows.p, rows.s);
      hold(rows.p);
      hold(rows.d_second);
      wgmma_fence();
      if constexpr (!kRoom) rows.issue_scores(rows.d_p, shared, 1, group, step);
      issue_columns(rows.d_second, rows.p, shared.others(1, step));
      wgmma_wait<1>();  // all but dv
    } else {
      wgmma_wait<0>();
    }
    hold(rows.d_p);
    rows.take_gradients(shared, step);
    pack_operand(rows.d_s, rows.s);
    hold(rows.d_s);
    hold(rows.d_first);
    wgmma_fence();
    issue_columns(rows.d_first, rows.d_s, shared.others(0, step));
    if constexpr (!kRoom) {
      wgmma_wait<0>();
      hold(rows.d_first);
      hold(rows.d_second);
      release(shared.empty(step));
    }
  }
  wgmma_wait<0>();
  hold(rows.d_first);
  hold(rows.d_second);
}

template <bool kOfKeys, int kHead>
LONGHAUL_DEVICE void compute_gradients(const Arguments& in, const GradientShared<kOfKeys, kHead>& shared, const GradientWork& work,
                                       int group) {
  const int row0 = group * kGroupRows + warp_index() % 4 * 16, thread = static_cast<int>(threadIdx.x) % kGroup;
  const int key_heads = in.heads / in.group, head = kOfKeys ? work.key_head : work.first_head, heads = kOfKeys ? key_heads : in.heads;
  GradientRows<kOfKeys, kHead> rows;
  rows.clear();
  if (work.steps > 0) {
    load_panels<kGroupRows, kGroup>(shared.own(0), kOfKeys ? in.k : in.q, work.tile.begin, head, group * kGroupRows, work.tile.rows,
                                    thread);
    load_panels<kGroupRows, kGroup>(shared.own(1), kOfKeys ? in.v : in.d_o, work.tile.begin, head, group * kGroupRows, work.tile.rows,
                                    thread);
    LONGHAUL_UNROLL
    for (int half = 0; !kOfKeys && half < 2; ++half) {
      const int row = row0 + c_place(lane_index(), 2 * half).row;
      const int64_t at = (work.tile.begin + (row < work.tile.rows ? row : 0)) * in.heads + head;
      const float of_row = in.logsumexp[at] * kLog2E;
      rows.logsumexp[half] = of_row == negative_infinity() ? 0.f : of_row;  // nothing visible: every score is masked
      rows.row_dot[half] = in.row_dots[at];
    }
    finish_panels();
    named_barrier_meet(kGroupBarrier + group, kGroup);
    walk_others(in, shared, work, group, rows);
    named_barrier_meet(kGroupBarrier + group, kGroup);  // own rows are about to be written over: the products of all four warps are done
  }
  const float scale[2] = {in.scale, in.scale};
  scale_rows(rows.d_first, scale);
  Bf16* const out = kOfKeys ? in.d_k : in.d_q;
  store_panels(shared.own(0), row0, rows.d_first, work.tile.rows, in.q.width,
               [&](int row) { return out + ((work.tile.begin + row) * heads + head) * in.q.width; });
  if constexpr (kOfKeys) {
    store_panels(shared.own(1), row0, rows.d_second, work.tile.rows, in.v.width,
                 [&](int row) { return in.d_v + ((work.tile.begin + row) * heads + head) * in.v.width; });
  }
}

template <bool kOfKeys, int kHead>
LONGHAUL_KERNEL_OF_ONE(kWgmmaThreads)
gradient_wgmma_kernel(Arguments in) {
#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __trap();  // attention_backward_wgmma does not come here
#else
  LONGHAUL_SHARED(raw);
  const GradientShared<kOfKeys, kHead> shared{aligned_to_pattern(raw)};
  if (threadIdx.x == 0) {
    shared.work() = gradient_work<kOfKeys>(in);
    for (int stage = 0; stage < kWgmmaStages; ++stage) {
      shared.full(stage).initialise(kGroup);
      shared.empty(stage).initialise(kComputeWarps);
    }
  }
  __syncthreads();
  const int group = static_cast<int>(threadIdx.x) / kGroup;
  if (group == 0) {
    give_registers<kLoadRegisters>();
    load_others(in, shared, shared.work());
  } else {
    take_registers<kComputeRegisters>();
    compute_gradients(in, shared, shared.work(), group - 1);
  }
#endif
}

}  // namespace
}  // namespace longhaul::kernels::cuda
