// Matrix products of our own on a GPU: bf16 operands, fp32 accumulation, mma.m16n8k16, one kernel for every
// orientation. For gpu-check, experts (groups of rows, sizes known on the device only) and the fused head;
// where LibTorch is, cuBLAS does plain products.
//
//   C[m × n] = A · B;  A is [m × k], or [k × m] where a_transposed;
//   B is [k × n], or [n × k] where b_transposed.
// C bf16 or fp32; fp32 may be added to (main gradients). Deterministic.
#pragma once

#include "kernels/cuda/numbers.h"
#include "kernels/matmul/tiles.h"

namespace longhaul::kernels::cuda {

struct Matmul {
  int64_t m = 0, n = 0, k = 0;
  const Bf16 *a = nullptr, *b = nullptr;
  int64_t a_stride = 0, b_stride = 0, c_stride = 0;  // between rows
  bool a_transposed = false, b_transposed = false;
  Bf16* c = nullptr;
  float* c_fp32 = nullptr;  // instead of c
  bool accumulate = false;  // into c_fp32
  // Groups (experts): row offsets [groups + 1] on the device. kRows: rows of A and C in groups, B of group g
  // at b + g · b_group; m is the number of all rows. kDepth: the depth in groups, C of group g at c + g ·
  // c_group; k is the number of all rows.
  enum class Grouping : int { kNone, kRows, kDepth } grouping = Grouping::kNone;
  int groups = 1;
  const int64_t* offsets = nullptr;
  int64_t b_group = 0, c_group = 0;
};

void matmul(const Matmul& product, Stream stream);

// The limit that matmul and its relatives work under: mma.m16n8k16 from registers, nothing else. `out` takes
// a float per thread.
double matrix_rate_flops(int multiprocessors);
void matrix_rate_kernel(int multiprocessors, float* out, Stream stream);

}  // namespace longhaul::kernels::cuda
