// O of all chunks at once (delta.h).
#pragma once

#include "kernels/delta_rule/cuda/delta.h"

namespace longhaul::kernels::cuda {

constexpr int kDeltaOutputTiles = 8;  // P, what leaves, and two stages of Q, S, R

// A block: a chunk and a head. Warp w computes rows 16 (w % 4) … and columns 32 (w / 4) … of each 64 values.
LONGHAUL_KERNEL(kTwoPassThreads) delta_outputs_kernel(Delta in, Bf16* o) {
  LONGHAUL_SHARED(shared);
  const auto tile = [&](int n) { return Tile<kSlice>{reinterpret_cast<Bf16*>(shared) + n * kTileValues}; };
  const auto staged = [&](int step, int which) { return tile(2 + step % 2 * 3 + which); };
  const Tile<kSlice> scores = tile(0), leaving = tile(1);
  DeltaDecays& decays = *reinterpret_cast<DeltaDecays*>(shared + kDeltaOutputTiles * kTileBytes);
  const ChunkedBlock place = chunked_block(blockIdx.x, in.heads, 1);
  const Chunk chunk = in.chunks[place.part];
  const int head = place.head, row_tile = warp_index() % 4, row0 = row_tile * 16,
            col0 = warp_index() / 4 * 32;
  const Rows residuals{in.residuals, 1, in.v.width, static_cast<int64_t>(in.heads) * in.v.width,
                       in.v.width % kUnit == 0};
  const int key_slices = slices_of(in.k.width), steps = key_slices * slices_of(in.v.width);
  const auto load = [&](int step) {
    if (step < steps) {
      const int key0 = step % key_slices * kSlice, value0 = step / key_slices * kSlice;
      load_rows(staged(step, 0), in.q, chunk, head, key0);
      load_state(staged(step, 1), in, in.states, place.part, head, key0, value0);
      if (step % key_slices + 1 == key_slices) load_rows(staged(step, 2), residuals, chunk, head, value0);
    }
    end_copy_group();
  };
  load_pairs(scores, in, in.scores, place.part, head);
  if (warp_index() == 0) read_decays(in, chunk, head, decays);
  load(0);
  float c[4][4] = {};
  for (int step = 0; step < steps; ++step) {
    load(step + 1);
    wait_for_copies<1>();
    __syncthreads();
    LONGHAUL_UNROLL
    for (int key = 0; key < kSlice; key += 16)
      add_product(c, load_a(staged(step, 0), row0, key), staged(step, 1), key, col0);
    if (step % key_slices + 1 == key_slices) {
      each_place(c, row0, col0, [&](float& x, int row, int) { x *= decays.read[row]; });
      for (int other = 0; other <= row_tile; ++other)
        add_product(c, load_a(scores, row0, other * 16), staged(step, 2), other * 16, col0);
      const int value0 = step / key_slices * kSlice + col0;
      Bf16* out = o + (chunk.first * in.heads + head) * in.v.width + value0;
      store_rows(leaving, row0, col0, c, chunk.rows, in.v.width - value0,
                 [&](int row) { return out + static_cast<int64_t>(row) * in.heads * in.v.width; });
      clear(c);
    }
    __syncthreads();
  }
  wait_for_copies<0>();
}

}  // namespace longhaul::kernels::cuda
