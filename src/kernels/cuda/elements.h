// Parts of the memory-bound kernels: eight bf16 values at a time, and sums over rows that do not depend on
// how blocks are scheduled.
//
// A row that is not a whole number of aligned 16-byte units is read value by value.
#pragma once

#include "kernels/cuda/mma.h"
#include "kernels/cuda/rows.h"

namespace longhaul::kernels::cuda {

struct Eight {
  float x[kUnit];
};

LONGHAUL_DEVICE Eight load_eight(const Bf16* from, int64_t left) {
  Eight out;
  if (left >= kUnit && is_aligned(from)) {
    const Unit unit = *reinterpret_cast<const Unit*>(from);
    LONGHAUL_UNROLL
    for (int i = 0; i < 4; ++i) {
      out.x[2 * i] = low_half(unit.word[i]);
      out.x[2 * i + 1] = high_half(unit.word[i]);
    }
  } else {
    LONGHAUL_UNROLL
    for (int i = 0; i < kUnit; ++i) out.x[i] = i < left ? to_float(from[i]) : 0.f;
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

// sink[c] += Σ over runs of partial[run, c]
LONGHAUL_KERNEL(256) sum_runs_kernel(const float* partial, float* sink, int64_t runs, int64_t columns) {
  const int64_t c = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (c >= columns) return;
  float sum = 0;
  for (int64_t run = 0; run < runs; ++run) sum += partial[run * columns + c];
  sink[c] += sum;
}
inline void sum_runs(const char* name, const float* partial, float* sink, int64_t runs, int64_t columns,
                     Stream stream) {
  launch(name, sum_runs_kernel, divide_up(columns, 256), 256, 0, stream, partial, sink, runs, columns);
}

}  // namespace longhaul::kernels::cuda
