#include "kernels/rotary_heads/cuda.h"

#include "kernels/cuda/device.h"

namespace longhaul::kernels::cuda {
namespace {

// A thread per pair, then per channel that does not turn.
LONGHAUL_KERNEL(256)
rotary_kernel(const Bf16* x, int64_t x_stride, const float* cos, const float* sin, Bf16* y, int64_t y_stride,
              int64_t tokens, int heads, int width, int pairs, bool inverse) {
  const int64_t each = width - pairs, index = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (index >= tokens * heads * each) return;
  const int64_t row = index / each, token = row / heads, head = row % heads;
  const int j = static_cast<int>(index % each);
  const Bf16* from = x + token * x_stride + head * width;
  Bf16* to = y + token * y_stride + head * width;
  if (j >= pairs) {
    to[j + pairs] = from[j + pairs];
    return;
  }
  const float c = cos[token * pairs + j], s = inverse ? -sin[token * pairs + j] : sin[token * pairs + j];
  const float a = to_float(from[j]), b = to_float(from[j + pairs]);
  to[j] = from_float<Bf16>(a * c - b * s);
  to[j + pairs] = from_float<Bf16>(b * c + a * s);
}

}  // namespace

void rotary(const Bf16* x, int64_t x_stride, const float* cos, const float* sin, Bf16* y, int64_t y_stride,
            int64_t tokens, int heads, int width, int pairs, bool inverse, Stream stream) {
  launch("rotary", rotary_kernel, divide_up(tokens * heads * (width - pairs), 256), 256, 0, stream, x,
         x_stride, cos, sin, y, y_stride, tokens, heads, width, pairs, inverse);
}

}  // namespace longhaul::kernels::cuda
