#include "kernels/silu/cuda.h"

#include "kernels/cuda/elements.h"

namespace longhaul::kernels::cuda {
namespace {

template <bool kBackward>
LONGHAUL_KERNEL(256) silu_kernel(const Bf16* x, const Bf16* d_y, Bf16* out, int64_t n) {
  const int64_t c = (static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x) * kUnit;
  if (c >= n) return;
  Eight value = load_eight(x + c, n - c), g{};
  if (kBackward) g = load_eight(d_y + c, n - c);
  LONGHAUL_UNROLL
  for (int i = 0; i < kUnit; ++i) {
    const float s = sigmoid(value.x[i]);
    value.x[i] = kBackward ? g.x[i] * s * (1.f + value.x[i] * (1.f - s)) : value.x[i] * s;
  }
  store_eight(out + c, n - c, value);
}

}  // namespace

void silu_forward(const Bf16* x, Bf16* y, int64_t n, Stream stream) {
  launch("silu.forward", silu_kernel<false>, divide_up(n, 256 * kUnit), 256, 0, stream, x, static_cast<const Bf16*>(nullptr), y, n);
}
void silu_backward(const Bf16* x, const Bf16* d_y, Bf16* d_x, int64_t n, Stream stream) {
  launch("silu.backward", silu_kernel<true>, divide_up(n, 256 * kUnit), 256, 0, stream, x, d_y, d_x, n);
}

}  // namespace longhaul::kernels::cuda
