// Parts of the memory-bound kernels: eight values at a time, and sums over rows that do not depend on how
// blocks are scheduled.
//
// A row that is not a whole number of aligned 16-byte units is read value by value.
#pragma once

#include "kernels/cuda/mma.h"
#include "kernels/cuda/rows.h"

namespace longhaul::kernels::cuda {

struct Eight {
  float x[kUnit];
};

// Eight values as they lie in memory, in half as many registers; zeros from `left` on.
LONGHAUL_DEVICE Unit load_unit(const Bf16* from, int64_t left) {
  if (left >= kUnit && is_aligned(from)) return *reinterpret_cast<const Unit*>(from);
  Unit out;
  LONGHAUL_UNROLL
  for (int i = 0; i < 4; ++i) {
    const uint32_t low = 2 * i < left ? from[2 * i].bits : 0,
                   high = 2 * i + 1 < left ? from[2 * i + 1].bits : 0;
    out.word[i] = low | high << 16;
  }
  return out;
}
LONGHAUL_DEVICE Eight widened(const Unit& unit) {
  Eight out;
  LONGHAUL_UNROLL
  for (int i = 0; i < 4; ++i) {
    out.x[2 * i] = low_half(unit.word[i]);
    out.x[2 * i + 1] = high_half(unit.word[i]);
  }
  return out;
}
LONGHAUL_DEVICE Eight load_eight(const Bf16* from, int64_t left) { return widened(load_unit(from, left)); }
// The same of fp32; zeros for null.
LONGHAUL_DEVICE Eight load_eight(const float* from, int64_t left) {
  Eight out{};
  if (from == nullptr) return out;
  if (left >= kUnit && is_aligned(from)) {
    LONGHAUL_UNROLL
    for (int half = 0; half < 2; ++half) {
      const FloatUnit unit = reinterpret_cast<const FloatUnit*>(from)[half];
      LONGHAUL_UNROLL
      for (int i = 0; i < 4; ++i) out.x[4 * half + i] = unit.x[i];
    }
  } else {
    LONGHAUL_UNROLL
    for (int i = 0; i < kUnit; ++i) out.x[i] = i < left ? from[i] : 0.f;
  }
  return out;
}

LONGHAUL_DEVICE void store_eight(Bf16* to, int64_t left, const Eight& values) {
  if (left >= kUnit && is_aligned(to)) {
    Unit unit;
    LONGHAUL_UNROLL
    for (int i = 0; i < 4; ++i) unit.word[i] = pack(values.x[2 * i], values.x[2 * i + 1]);
    *reinterpret_cast<Unit*>(to) = unit;
  } else {
    LONGHAUL_UNROLL
    for (int i = 0; i < kUnit; ++i) {
      if (i < left) to[i] = from_float<Bf16>(values.x[i]);
    }
  }
}

LONGHAUL_DEVICE void store_eight(float* to, int64_t left, const Eight& values) {
  if (left >= kUnit && is_aligned(to)) {
    LONGHAUL_UNROLL
    for (int half = 0; half < 2; ++half) {
      FloatUnit unit;
      LONGHAUL_UNROLL
      for (int i = 0; i < 4; ++i) unit.x[i] = values.x[4 * half + i];
      reinterpret_cast<FloatUnit*>(to)[half] = unit;
    }
  } else {
    LONGHAUL_UNROLL
    for (int i = 0; i < kUnit; ++i) {
      if (i < left) to[i] = values.x[i];
    }
  }
}

// sinks[s][c] += Σ over runs of partial[s, run, c]. A block takes 32 columns of one sink: each of its warps
// adds up every sixteenth run, and the sums of the warps are added in their order.
constexpr int kSumWarps = 16;
LONGHAUL_KERNEL(kSumWarps* kWarp)
sum_runs_kernel(const float* partial, float* first, float* second, int64_t runs, int64_t columns) {
  LONGHAUL_SHARED(shared);
  float* sums = reinterpret_cast<float*>(shared);  // [warps, 32]
  const int64_t blocks = divide_up(columns, kWarp), which = blockIdx.x / blocks,
                c = blockIdx.x % blocks * kWarp + lane_index();
  const float* from = partial + which * runs * columns + c;
  float sum = 0;
  if (c < columns) {
    LONGHAUL_UNROLL_BY(8)
    for (int64_t run = warp_index(); run < runs; run += kSumWarps) sum += from[run * columns];
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (warp_index() > 0 || c >= columns) return;
  sum = 0;
  for (int w = 0; w < kSumWarps; ++w) sum += sums[w * kWarp + lane_index()];
  (which == 0 ? first : second)[c] += sum;
}
// partial [1 or 2, runs, columns]: `second` null means that there is one sink.
inline void sum_runs(const char* name, const float* partial, float* first, float* second, int64_t runs,
                     int64_t columns, Stream stream) {
  if (runs == 0) return;
  launch(name, sum_runs_kernel, divide_up(columns, kWarp) * (second != nullptr ? 2 : 1), kSumWarps * kWarp,
         kSumWarps * kWarp * 4, stream, partial, first, second, runs, columns);
}

}  // namespace longhaul::kernels::cuda
