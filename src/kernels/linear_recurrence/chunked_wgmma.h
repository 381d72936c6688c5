// The chunked form of a run (run.h) by Hopper's own products, for keys of up to 128: a block of two warp groups takes a segment of a head
// and a slice of 64 value columns, chunk by chunk.
//
//   group 0   A = q kᵀ, o = e^b q S + write · A v; o to memory
//   group 1   Sᵀ ← e^{total} Sᵀ + vᵀ (factors ⊙ k), transposed in its registers; rounded to shared memory for the next chunk
//
// Both work at once on a chunk, from three stages of q, k, v and two of Sᵀ and of the decays: one barrier a chunk, and no product waits for
// the other group. All 256 threads load, by cp.async (docs/design/cuda.md says why not TMA). What a first pass must find for segments,
// the kernels of chunked_kernels.h do.
#pragma once

#include "kernels/cuda/barriers.h"
#include "kernels/linear_recurrence/chunked_kernels.h"

namespace longhaul::kernels::cuda {

struct WgmmaChunks {  // shared memory
  using Keys = Panels<kChunk, kRunKeys>;
  using Values = Panels<kChunk, kRunSlice>;
  using Transposed = Panels<kRunSlice, kRunKeys>;
  unsigned char* base;

  LONGHAUL_DEVICE Bf16* stage(int chunk, int at) const {
    return reinterpret_cast<Bf16*>(base + chunk % kRunStages * wgmma_run_shared().stage + at);
  }
  LONGHAUL_DEVICE Keys q(int chunk) const { return {stage(chunk, 0)}; }
  LONGHAUL_DEVICE Keys k(int chunk) const { return {stage(chunk, wgmma_run_shared().k)}; }
  LONGHAUL_DEVICE Values v(int chunk) const { return {stage(chunk, wgmma_run_shared().v)}; }
  LONGHAUL_DEVICE Transposed state(int chunk) const {
    return {reinterpret_cast<Bf16*>(base + wgmma_run_shared().state + chunk % 2 * Transposed::kBytes)};
  }
  LONGHAUL_DEVICE ChunkDecays& decays(int chunk) const {
    return reinterpret_cast<ChunkDecays*>(base + wgmma_run_shared().decays)[chunk % 2];
  }
};

// Where a block is on its way.
struct WgmmaWalk {
  const Run& run;
  Segment segment;
  WgmmaChunks shared;
  int head, slice, chunks;

  template <int kWidth>
  LONGHAUL_DEVICE void load_panels(Panels<kChunk, kWidth> to, const Rows& from, int chunk, int col0) const {
    const Bf16* first = from.at(token_at(segment, static_cast<int64_t>(chunk) * kChunk, run.against), head);
    LONGHAUL_UNROLL
    for (int col = 0; col < kWidth; col += kPanelColumns) {
      const int left = from.width - col0 - col;
      load_tile<kChunk>(to.panel(col), left > 0 ? first + col0 + col : first, run.against ? -from.stride : from.stride,
                        rows_of(segment, chunk), left, from.aligned);
    }
  }
  LONGHAUL_DEVICE void load(int chunk) const {
    if (chunk < chunks) {
      load_panels(shared.q(chunk), run.q, chunk, 0);
      load_panels(shared.k(chunk), run.k, chunk, 0);
      load_panels(shared.v(chunk), run.v, chunk, slice * kRunSlice);
    }
    end_copy_group();
  }
  // Both groups are through with the chunk before, and this one is there, with its state and its decays.
  LONGHAUL_DEVICE void arrive_at(int chunk) const {
    wait_for_copies<kRunStages - 2>();
    fence_async_proxy();  // of copies, and of the state
    named_barrier_meet(1, kRunThreads);
    load(chunk + kRunStages - 1);
  }
};

LONGHAUL_DEVICE void compute_outputs(const WgmmaWalk& walk) {
  LONGHAUL_ROLL
  for (int chunk = 0; chunk < walk.chunks; ++chunk) {
    walk.arrive_at(chunk);
    const WgmmaChunks::Keys q = walk.shared.q(chunk), k = walk.shared.k(chunk);
    const WgmmaChunks::Transposed state = walk.shared.state(chunk);
    const ChunkDecays& decays = walk.shared.decays(chunk);
    float a[kChunk / 8][4], o[kRunSlice / 8][4];
    wgmma_fence();
    group_multiply<false>(a, q.of_rows(0, 0), k.of_rows(0, 0));
    LONGHAUL_UNROLL
    for (int key = 16; key < kRunKeys; key += 16) group_multiply<true>(a, q.of_rows(0, key), k.of_rows(0, key));
    wgmma_commit();
    group_multiply<false>(o, q.of_rows(0, 0), state.of_rows(0, 0));
    LONGHAUL_UNROLL
    for (int key = 16; key < kRunKeys; key += 16) group_multiply<true>(o, q.of_rows(0, key), state.of_rows(0, key));
    wgmma_commit();
    wgmma_wait<1>();
    hold(a);
    weigh_scores(a, decays.sums, walk.run.write);
    FragmentA weights[kChunk / 16];
    LONGHAUL_UNROLL
    for (int token = 0; token < kChunk / 16; ++token) weights[token] = as_a(a[2 * token], a[2 * token + 1]);
    wgmma_wait<0>();
    hold(o);
    decay_rows(o, decays.sums);
    hold(o);
    hold(weights);
    wgmma_fence();
    LONGHAUL_UNROLL
    for (int token = 0; token < kChunk / 16; ++token) group_multiply_add(o, weights[token], walk.shared.v(chunk).of_columns(token * 16));
    wgmma_commit();
    wgmma_wait<0>();
    hold(o);
    named_barrier_meet(2, kGroup);  // all four warps have read q: its rows may take the output on its way out
    store_output(walk.run, walk.segment, chunk, walk.head, walk.slice, o, q.panel(0));
  }
}

LONGHAUL_DEVICE void carry_state(const WgmmaWalk& walk, int part) {
  State<kRunSlice, kRunKeys, kGroup / kWarp, true> state;
  const int warp = warp_index() % 4, col0 = walk.slice * kRunSlice;
  state.enter(walk.run, walk.segment, part, walk.head, col0);
  state.put(walk.shared.state(0));
  if (warp == 0) sum_decays(walk.run, walk.segment, 0, walk.head, walk.shared.decays(0));
  LONGHAUL_ROLL
  for (int chunk = 0; chunk < walk.chunks; ++chunk) {
    walk.arrive_at(chunk);
    const ChunkDecays& decays = walk.shared.decays(chunk);
    const float decay = power_of_two(decays.total);
    FragmentA v[kChunk / 16];
    LONGHAUL_UNROLL
    for (int token = 0; token < kChunk / 16; ++token) {
      v[token] = load_a_transposed(walk.shared.v(chunk).panel(0), token * 16, warp * 16);
      scale_tokens(v[token], decays.factors + token * 16);
    }
    state.each([&](float& x, Place) { x *= decay; });
    hold(state.value[0]);
    hold(v);
    wgmma_fence();
    LONGHAUL_UNROLL
    for (int token = 0; token < kChunk / 16; ++token)
      group_multiply_add(state.value[0], v[token], walk.shared.k(chunk).of_columns(token * 16));
    wgmma_commit();
    if (warp == 0 && chunk + 1 < walk.chunks) sum_decays(walk.run, walk.segment, chunk + 1, walk.head, walk.shared.decays(chunk + 1));
    wgmma_wait<0>();
    hold(state.value[0]);
    state.put(walk.shared.state(chunk + 1));
  }
  state.leave(walk.run, walk.segment, walk.head, col0);
}

LONGHAUL_KERNEL_OF_ONE(kRunThreads) chunked_wgmma_kernel(Run run) {
#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __trap();  // chunked_wgmma_refusal keeps everybody away
#else
  LONGHAUL_SHARED(raw);
  const ChunkedBlock block = chunked_block(blockIdx.x, run.heads, static_cast<int>(divide_up(run.v.width, kRunSlice)));
  const Segment segment = run.segments[block.part];
  const WgmmaWalk walk{run, segment, {aligned_to_pattern(raw)}, block.head, block.slice, chunks_of(segment)};
  for (int chunk = 0; chunk < kRunStages - 1; ++chunk) walk.load(chunk);
  if (static_cast<int>(threadIdx.x) < kGroup) {
    compute_outputs(walk);
  } else {
    carry_state(walk, block.part);
  }
  wait_for_copies<0>();
#endif
}

}  // namespace longhaul::kernels::cuda
