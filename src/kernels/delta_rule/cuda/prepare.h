// The first kernel prepares what a chunk needs of its own tokens: T and P (delta.h).
//
// T by doubling, in fp32: of each block of 2b tokens whose halves are solved, X and Y, and tied by C, the
// lower left is −Y C X. What lies above the diagonal is free and takes C X.
#pragma once

#include "kernels/delta_rule/cuda/delta.h"

namespace longhaul::kernels::cuda {

constexpr int kPrepareThreads = 128;
constexpr int kSystemRow = kChunk + 1;  // floats, so that a column lies in different banks

struct PrepareShared {
  int k, system, decays, bytes;  // q stands at 0
};
LONGHAUL_HD constexpr PrepareShared prepare_shared() {
  const int system = 2 * kTileBytes, decays = system + kChunk * kSystemRow * 4;
  return {kTileBytes, system, decays, decays + static_cast<int>(sizeof(DeltaDecays))};
}

// Below the diagonal of `m`: what ties tokens becomes the inverse, whose diagonal is 1.
LONGHAUL_DEVICE void invert(float* m) {
  const auto at = [m](int row, int col) -> float& { return m[row * kSystemRow + col]; };
  LONGHAUL_ROLL
  for (int half = 1; half < kChunk; half *= 2) {
    for (int n = static_cast<int>(threadIdx.x); n < kChunk / 2 * half; n += kPrepareThreads) {
      const int base = n / (half * half) * 2 * half, row = base + half + n / half % half, col = n % half;
      float sum = at(row, base + col);
      for (int x = col + 1; x < half; ++x) sum += at(row, base + x) * at(base + x, base + col);
      at(row - half, base + half + col) = sum;
    }
    __syncthreads();
    for (int n = static_cast<int>(threadIdx.x); n < kChunk / 2 * half; n += kPrepareThreads) {
      const int base = n / (half * half) * 2 * half, middle = base + half, row = n / half % half,
                col = n % half;
      float sum = at(base + row, middle + col);
      for (int y = 0; y < row; ++y) sum += at(middle + row, middle + y) * at(base + y, middle + col);
      at(middle + row, base + col) = -sum;
    }
    __syncthreads();
  }
}

// A block: a chunk and a head; warp w has 16 of the rows.
LONGHAUL_KERNEL(kPrepareThreads) delta_prepare_kernel(Delta in) {
  LONGHAUL_SHARED(shared);
  constexpr PrepareShared kShared = prepare_shared();
  const Tile<kSlice> q{reinterpret_cast<Bf16*>(shared)}, k{reinterpret_cast<Bf16*>(shared + kShared.k)};
  float* system = reinterpret_cast<float*>(shared + kShared.system);
  DeltaDecays& decays = *reinterpret_cast<DeltaDecays*>(shared + kShared.decays);
  const ChunkedBlock place = chunked_block(blockIdx.x, in.heads, 1);
  const Chunk chunk = in.chunks[place.part];
  const int head = place.head, last = warp_index(), row0 = last * 16;
  if (warp_index() == 0) read_decays(in, chunk, head, decays);
  float qk[kChunk / 8][4] = {}, kk[kChunk / 8][4] = {};
  for (int key0 = 0; key0 < in.k.width; key0 += kSlice) {
    load_rows(q, in.q, chunk, head, key0);
    load_rows(k, in.k, chunk, head, key0);
    end_copy_group();
    wait_for_copies<0>();
    __syncthreads();
    LONGHAUL_ROLL
    for (int key = 0; key < kSlice; key += 16) {
      const FragmentA query = load_a(q, row0, key), of_key = load_a(k, row0, key);
      LONGHAUL_UNROLL
      for (int other = 0; other < kChunk / 16; ++other) {
        if (other > last) continue;  // above the diagonal
        FragmentB b[2];
        load_b(b, k, other * 16, key);
        multiply_add(qk[2 * other], query, b[0]);
        multiply_add(qk[2 * other + 1], query, b[1]);
        multiply_add(kk[2 * other], of_key, b[0]);
        multiply_add(kk[2 * other + 1], of_key, b[1]);
      }
    }
    __syncthreads();
  }
  each_place(qk, row0, 0, [&](float& x, int row, int col) {
    x *= in.scale * decays.beta[col] * decay_between(decays, row, col);
  });
  each_place(kk, row0, 0, [&](float& x, int row, int col) {
    system[row * kSystemRow + col] = x * decays.beta[col] * decay_between(decays, row, col);
  });
  Bf16* scores = in.scores + pairs_base(in, place.part, head);
  store_rows(q, row0, 0, qk, kChunk, kChunk, [&](int row) { return scores + row * kChunk; });
  __syncthreads();
  invert(system);
  Bf16* inverse = in.inverses + pairs_base(in, place.part, head);
  for (int n = static_cast<int>(threadIdx.x); n < kTileValues / kUnit; n += kPrepareThreads) {
    const int row = n * kUnit / kChunk, col = n * kUnit % kChunk;
    const auto value = [&](int j) { return j < row ? system[row * kSystemRow + j] : 0.f; };
    Unit unit;
    LONGHAUL_UNROLL
    for (int i = 0; i < 4; ++i) unit.word[i] = pack(value(col + 2 * i), value(col + 2 * i + 1));
    *reinterpret_cast<Unit*>(inverse + n * kUnit) = unit;
  }
}

}  // namespace longhaul::kernels::cuda
