#include "kernels/swiglu/cuda.h"

#include "kernels/cuda/elements.h"

namespace longhaul::kernels::cuda {
namespace {

// A thread takes a unit of eight columns of one row.
template <bool kBackward>
LONGHAUL_KERNEL(256) swiglu_kernel(const Bf16* x, const Bf16* d_y, Bf16* out, int64_t rows, int64_t width) {
  const int64_t units = divide_up(width, kUnit), index = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (index >= rows * units) return;
  const int64_t row = index / units, c = index % units * kUnit, left = width - c;
  Eight gate = load_eight(x + row * 2 * width + c, left), up = load_eight(x + (row * 2 + 1) * width + c, left);
  if (!kBackward) {
    LONGHAUL_UNROLL
    for (int i = 0; i < kUnit; ++i) up.x[i] *= gate.x[i] * sigmoid(gate.x[i]);
    store_eight(out + row * width + c, left, up);
    return;
  }
  const Eight g = load_eight(d_y + row * width + c, left);
  LONGHAUL_UNROLL
  for (int i = 0; i < kUnit; ++i) {
    const float s = sigmoid(gate.x[i]), silu = gate.x[i] * s;
    const float d_gate = g.x[i] * up.x[i] * s * (1.f + gate.x[i] * (1.f - s));
    up.x[i] = g.x[i] * silu;
    gate.x[i] = d_gate;
  }
  store_eight(out + row * 2 * width + c, left, gate);
  store_eight(out + (row * 2 + 1) * width + c, left, up);
}

}  // namespace

void swiglu_forward(const Bf16* x, Bf16* y, int64_t rows, int64_t width, Stream stream) {
  launch("swiglu.forward", swiglu_kernel<false>, divide_up(rows * divide_up(width, kUnit), 256), 256, 0, stream, x, static_cast<const Bf16*>(nullptr), y,
         rows, width);
}
void swiglu_backward(const Bf16* x, const Bf16* d_y, Bf16* d_x, int64_t rows, int64_t width, Stream stream) {
  launch("swiglu.backward", swiglu_kernel<true>, divide_up(rows * divide_up(width, kUnit), 256), 256, 0, stream, x, d_y, d_x, rows, width);
}

}  // namespace longhaul::kernels::cuda
