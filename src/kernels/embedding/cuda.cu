#include "kernels/embedding/cuda.h"

#include "kernels/cuda/elements.h"

namespace longhaul::kernels::cuda {
namespace {

LONGHAUL_KERNEL(256)
forward_kernel(const int64_t* ids, const Bf16* table, const int64_t* positions, const Bf16* position_table,
               Bf16* out, int64_t tokens, int64_t hidden) {
  const int64_t units = divide_up(hidden, kUnit),
                index = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (index >= tokens * units) return;
  const int64_t token = index / units, c = index % units * kUnit;
  Eight row = load_eight(table + ids[token] * hidden + c, hidden - c);
  if (position_table != nullptr) {
    const Eight other = load_eight(position_table + positions[token] * hidden + c, hidden - c);
    LONGHAUL_UNROLL
    for (int i = 0; i < kUnit; ++i) row.x[i] += other.x[i];
  }
  store_eight(out + token * hidden + c, hidden - c, row);
}

// A block per distinct id and 1,024 columns.
LONGHAUL_KERNEL(128)
gradient_kernel(const int32_t* tokens, const int32_t* starts, const int64_t* ids, const Bf16* d_out,
                float* sink, int64_t hidden) {
  const int64_t blocks = divide_up(hidden, 128 * kUnit), row = blockIdx.x / blocks,
                c = (blockIdx.x % blocks * 128 + threadIdx.x) * kUnit;
  if (c >= hidden) return;
  Eight sum{};
  for (int32_t i = starts[row]; i < starts[row + 1]; ++i) {
    const Eight g = load_eight(d_out + static_cast<int64_t>(tokens[i]) * hidden + c, hidden - c);
    LONGHAUL_UNROLL
    for (int j = 0; j < kUnit; ++j) sum.x[j] += g.x[j];
  }
  float* to = sink + ids[row] * hidden + c;
  LONGHAUL_UNROLL
  for (int j = 0; j < kUnit; ++j) {
    if (c + j < hidden) to[j] += sum.x[j];
  }
}

}  // namespace

void embedding_forward(const int64_t* ids, const Bf16* table, const int64_t* positions,
                       const Bf16* position_table, Bf16* out, int64_t tokens, int64_t hidden, Stream stream) {
  launch("embedding.forward", forward_kernel, divide_up(tokens * divide_up(hidden, kUnit), 256), 256, 0,
         stream, ids, table, positions, position_table, out, tokens, hidden);
}
void embedding_gradient(const int32_t* tokens, const int32_t* starts, const int64_t* ids, int64_t distinct,
                        const Bf16* d_out, float* sink, int64_t hidden, Stream stream) {
  launch("embedding.gradient", gradient_kernel, distinct * divide_up(hidden, 128 * kUnit), 128, 0, stream,
         tokens, starts, ids, d_out, sink, hidden);
}

}  // namespace longhaul::kernels::cuda
