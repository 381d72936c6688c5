#include "kernels/activation/cuda.h"

#include "kernels/cuda/elements.h"

namespace longhaul::kernels::cuda {
namespace {

// A thread takes a unit of eight columns of one row.
template <bool kBackward>
LONGHAUL_KERNEL(256)
swiglu_kernel(const Bf16* x, const Bf16* d_y, Bf16* out, int64_t rows, int64_t width) {
  const int64_t units = divide_up(width, kUnit), index = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (index >= rows * units) return;
  const int64_t row = index / units, c = index % units * kUnit, left = width - c;
  Eight gate = load_eight(x + row * 2 * width + c, left),
        up = load_eight(x + (row * 2 + 1) * width + c, left);
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

template <bool kBackward>
LONGHAUL_KERNEL(256)
silu_kernel(const Bf16* x, const Bf16* d_y, Bf16* out, int64_t n) {
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

constexpr float kRootTwoOverPi = 0.7978845608028654f, kCube = 0.044715f;

// tanh(z) = 1 − 2 / (e^{2z} + 1): right at both ends, where e^{2z} is 0 or infinite.
LONGHAUL_DEVICE float hyperbolic_tangent(float z) {
  return 1.f - 2.f * reciprocal(exponential(2.f * z) + 1.f);
}

LONGHAUL_DEVICE float gelu(float u) {
  return 0.5f * u * (1.f + hyperbolic_tangent(kRootTwoOverPi * (u + kCube * u * u * u)));
}
LONGHAUL_DEVICE float gelu_slope(float u) {
  const float t = hyperbolic_tangent(kRootTwoOverPi * (u + kCube * u * u * u));
  return 0.5f * (1.f + t) + 0.5f * u * (1.f - t * t) * kRootTwoOverPi * (1.f + 3.f * kCube * u * u);
}

// The bias of columns c …; zeros where there is none.
LONGHAUL_DEVICE Eight load_bias(const float* bias, int64_t c, int64_t left) {
  return load_eight(bias != nullptr ? bias + c : nullptr, left);
}

LONGHAUL_KERNEL(256)
bias_gelu_forward_kernel(const Bf16* x, const float* bias, Bf16* y, int64_t rows, int64_t width) {
  const int64_t units = divide_up(width, kUnit), index = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (index >= rows * units) return;
  const int64_t row = index / units, c = index % units * kUnit, left = width - c;
  Eight value = load_eight(x + row * width + c, left);
  const Eight b = load_bias(bias, c, left);
  LONGHAUL_UNROLL
  for (int i = 0; i < kUnit; ++i) value.x[i] = gelu(value.x[i] + b.x[i]);
  store_eight(y + row * width + c, left, value);
}

// A thread takes eight columns of a run of rows, and adds up what flows into their bias; it loads the next
// row while it computes one. kGelu false: d_y alone is added up.
template <bool kGelu>
LONGHAUL_KERNEL(128)
bias_backward_kernel(const Bf16* x, const float* bias, const Bf16* d_y, Bf16* d_x, float* partial,
                     int64_t rows, int64_t width) {
  const int64_t units = divide_up(width, kUnit), blocks = divide_up(units, 128);
  const int64_t run = blockIdx.x / blocks, c = (blockIdx.x % blocks * 128 + threadIdx.x) * kUnit,
                left = width - c;
  if (c >= width) return;
  const int64_t each = rows_per_run(rows), begin = run * each,
                end = begin + each < rows ? begin + each : rows;
  const auto load = [&](const Bf16* from, int64_t row) {
    return load_unit(from + row * width + c, row < end ? left : 0);
  };
  Eight b{}, sum{};
  Unit next{}, next_d_y = load(d_y, begin);
  if (kGelu) {
    b = load_bias(bias, c, left);
    next = load(x, begin);
  }
  LONGHAUL_UNROLL_BY(4)
  for (int64_t row = begin; row < end; ++row) {
    Eight value = widened(next);
    const Eight g = widened(next_d_y);
    if (kGelu) next = load(x, row + 1);
    next_d_y = load(d_y, row + 1);
    LONGHAUL_UNROLL
    for (int i = 0; i < kUnit; ++i) {
      value.x[i] = kGelu ? g.x[i] * gelu_slope(value.x[i] + b.x[i]) : g.x[i];
      sum.x[i] += value.x[i];
    }
    if (kGelu) store_eight(d_x + row * width + c, left, value);
  }
  if (partial != nullptr) store_eight(partial + run * width + c, left, sum);
}

}  // namespace

void swiglu_forward(const Bf16* x, Bf16* y, int64_t rows, int64_t width, Stream stream) {
  launch("swiglu.forward", swiglu_kernel<false>, divide_up(rows * divide_up(width, kUnit), 256), 256, 0,
         stream, x, static_cast<const Bf16*>(nullptr), y, rows, width);
}
void swiglu_backward(const Bf16* x, const Bf16* d_y, Bf16* d_x, int64_t rows, int64_t width, Stream stream) {
  launch("swiglu.backward", swiglu_kernel<true>, divide_up(rows * divide_up(width, kUnit), 256), 256, 0,
         stream, x, d_y, d_x, rows, width);
}

void silu_forward(const Bf16* x, Bf16* y, int64_t n, Stream stream) {
  launch("silu.forward", silu_kernel<false>, divide_up(n, 256 * kUnit), 256, 0, stream, x,
         static_cast<const Bf16*>(nullptr), y, n);
}
void silu_backward(const Bf16* x, const Bf16* d_y, Bf16* d_x, int64_t n, Stream stream) {
  launch("silu.backward", silu_kernel<true>, divide_up(n, 256 * kUnit), 256, 0, stream, x, d_y, d_x, n);
}

void bias_gelu_forward(const Bf16* x, const float* bias, Bf16* y, int64_t rows, int64_t width,
                       Stream stream) {
  launch("bias_gelu.forward", bias_gelu_forward_kernel, divide_up(rows * divide_up(width, kUnit), 256), 256,
         0, stream, x, bias, y, rows, width);
}
int64_t bias_workspace_bytes(int64_t rows, int64_t width) { return row_runs(rows) * width * 4; }
void bias_gelu_backward(const Bf16* x, const float* bias, const Bf16* d_y, Bf16* d_x, float* d_bias,
                        void* workspace, int64_t rows, int64_t width, Stream stream) {
  float* partial = d_bias != nullptr ? static_cast<float*>(workspace) : nullptr;
  const int64_t runs = row_runs(rows);
  launch("bias_gelu.backward", bias_backward_kernel<true>, runs * divide_up(divide_up(width, kUnit), 128),
         128, 0, stream, x, bias, d_y, d_x, partial, rows, width);
  if (d_bias != nullptr) sum_runs("bias_gelu.bias", partial, d_bias, nullptr, runs, width, stream);
}
void bias_gradient(const Bf16* d_y, float* d_bias, void* workspace, int64_t rows, int64_t width,
                   Stream stream) {
  float* partial = static_cast<float*>(workspace);
  const int64_t runs = row_runs(rows);
  launch("bias.gradient", bias_backward_kernel<false>, runs * divide_up(divide_up(width, kUnit), 128), 128, 0,
         stream, static_cast<const Bf16*>(nullptr), static_cast<const float*>(nullptr), d_y,
         static_cast<Bf16*>(nullptr), partial, rows, width);
  sum_runs("bias.gradient", partial, d_bias, nullptr, runs, width, stream);
}

}  // namespace longhaul::kernels::cuda
