// Forward a block per row, backward a block per run of rows. Equations: cuda.h.
#include "kernels/norm/cuda.h"

#include "kernels/cuda/elements.h"

namespace longhaul::kernels::cuda {
namespace {

constexpr int kNormThreads = 128;

LONGHAUL_DEVICE float activation(GateKind kind, float x) {
  return kind == GateKind::kNone ? 1.f : kind == GateKind::kSigmoid ? sigmoid(x) : x * sigmoid(x);
}
LONGHAUL_DEVICE float activation_slope(GateKind kind, float x) {
  const float s = sigmoid(x);
  return kind == GateKind::kSigmoid ? s * (1.f - s) : s * (1.f + x * (1.f - s));
}

template <bool kCentred>
LONGHAUL_KERNEL(kNormThreads)
norm_forward_kernel(Norm in) {
  LONGHAUL_SHARED(shared);
  float* scratch = reinterpret_cast<float*>(shared);
  const int64_t row = blockIdx.x, base = row * in.channels;
  const int first = static_cast<int>(threadIdx.x) * kUnit, step = kNormThreads * kUnit;
  const Bf16* h = in.residual != nullptr ? in.h + base : in.x + base;
  float sum = 0;
  for (int c = first; c < in.channels; c += step) {
    Eight x = load_eight(in.x + base + c, in.channels - c);
    if (in.residual != nullptr) {
      const Eight other = load_eight(in.residual + base + c, in.channels - c);
      LONGHAUL_UNROLL
      for (int i = 0; i < kUnit; ++i)
        x.x[i] = to_float(from_float<Bf16>(in.alpha * x.x[i] + in.beta * other.x[i]));
      store_eight(in.h + base + c, in.channels - c, x);  // read again below by this thread alone
    }
    LONGHAUL_UNROLL
    for (int i = 0; i < kUnit; ++i) sum += kCentred ? x.x[i] : x.x[i] * x.x[i];
  }
  sum = block_sum(sum, scratch);
  float mean = 0, squares = sum;
  if (kCentred) {
    mean = sum / static_cast<float>(in.channels);
    squares = 0;
    for (int c = first; c < in.channels; c += step) {
      const Eight x = load_eight(h + c, in.channels - c);
      for (int i = 0; i < kUnit; ++i)
        squares += c + i < in.channels ? (x.x[i] - mean) * (x.x[i] - mean) : 0.f;
    }
    squares = block_sum(squares, scratch);
  }
  const float inverse = 1.f / sqrtf(squares / static_cast<float>(in.channels) + in.eps);
  if (threadIdx.x == 0) {
    if (kCentred) in.mean[row] = mean;
    in.inverse[row] = inverse;
  }
  for (int c = first; c < in.channels; c += step) {
    Eight x = load_eight(h + c, in.channels - c);
    Eight gate{};
    if (in.gate_kind != GateKind::kNone) gate = load_eight(in.gate + base + c, in.channels - c);
    for (int i = 0; i < kUnit && c + i < in.channels; ++i) {
      const float y =
          (x.x[i] - mean) * inverse * in.weight[c + i] + (in.bias != nullptr ? in.bias[c + i] : 0.f);
      x.x[i] = y * activation(in.gate_kind, gate.x[i]);
    }
    store_eight(in.y + base + c, in.channels - c, x);
  }
}

// A block takes a run of rows; each thread adds up the weight gradient of its own columns in shared memory.
template <bool kCentred>
LONGHAUL_KERNEL(kNormThreads)
norm_backward_kernel(Norm in, NormGradient out) {
  LONGHAUL_SHARED(shared);
  float* scratch = reinterpret_cast<float*>(shared);
  float *d_weight = scratch + 8, *d_bias = d_weight + in.channels;
  const int first = static_cast<int>(threadIdx.x) * kUnit, step = kNormThreads * kUnit;
  for (int c = first; c < in.channels; c += step) {
    for (int i = c; i < c + kUnit && i < in.channels; ++i) d_weight[i] = d_bias[i] = 0;
  }
  const int64_t each = rows_per_run(in.rows), begin = blockIdx.x * each,
                end = begin + each < in.rows ? begin + each : in.rows;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t base = row * in.channels;
    const float mean = kCentred ? in.mean[row] : 0.f, inverse = in.inverse[row];
    float sum = 0, dot = 0;
    for (int c = first; c < in.channels; c += step) {
      const Eight h = load_eight(in.x + base + c, in.channels - c),
                  d_y = load_eight(out.d_y + base + c, in.channels - c);
      Eight gate{}, d_gate{};
      if (in.gate_kind != GateKind::kNone) gate = load_eight(in.gate + base + c, in.channels - c);
      for (int i = 0; i < kUnit && c + i < in.channels; ++i) {
        const float n = (h.x[i] - mean) * inverse, w = in.weight[c + i],
                    g = d_y.x[i] * activation(in.gate_kind, gate.x[i]);
        if (in.gate_kind != GateKind::kNone) {
          d_gate.x[i] = d_y.x[i] * (n * w + (in.bias != nullptr ? in.bias[c + i] : 0.f)) *
                        activation_slope(in.gate_kind, gate.x[i]);
        }
        d_weight[c + i] += g * n;
        d_bias[c + i] += g;
        sum += g * w;
        dot += g * w * n;
      }
      if (in.gate_kind != GateKind::kNone) store_eight(out.d_gate + base + c, in.channels - c, d_gate);
    }
    const float mean_d = kCentred ? block_sum(sum, scratch) / static_cast<float>(in.channels) : 0.f;
    const float mean_dot = block_sum(dot, scratch) / static_cast<float>(in.channels);
    for (int c = first; c < in.channels; c += step) {
      const Eight h = load_eight(in.x + base + c, in.channels - c),
                  d_y = load_eight(out.d_y + base + c, in.channels - c);
      Eight gate{}, d_h{}, d_branch{};
      if (in.gate_kind != GateKind::kNone) gate = load_eight(in.gate + base + c, in.channels - c);
      if (out.d_residual != nullptr) d_h = load_eight(out.d_residual + base + c, in.channels - c);
      for (int i = 0; i < kUnit && c + i < in.channels; ++i) {
        const float n = (h.x[i] - mean) * inverse,
                    g = d_y.x[i] * activation(in.gate_kind, gate.x[i]) * in.weight[c + i];
        d_h.x[i] += inverse * (g - mean_d - n * mean_dot);
        d_branch.x[i] = in.beta * d_h.x[i];
        d_h.x[i] *= in.alpha;
      }
      store_eight(out.d_x + base + c, in.channels - c, d_h);
      if (out.d_branch != nullptr) store_eight(out.d_branch + base + c, in.channels - c, d_branch);
    }
  }
  const int64_t runs = gridDim.x;
  for (int c = first; c < in.channels; c += step) {
    for (int i = c; i < c + kUnit && i < in.channels; ++i) {
      out.partial[static_cast<int64_t>(blockIdx.x) * in.channels + i] = d_weight[i];
      out.partial[(runs + blockIdx.x) * in.channels + i] = d_bias[i];
    }
  }
}

template <bool kCentred>
void norm_forward(const char* name, const Norm& in, Stream stream) {
  launch(name, norm_forward_kernel<kCentred>, in.rows, kNormThreads, 32, stream, in);
}
template <bool kCentred>
void norm_backward(const char* name, const Norm& in, const NormGradient& out, Stream stream) {
  const int64_t runs = row_runs(in.rows);
  launch(name, norm_backward_kernel<kCentred>, runs, kNormThreads, 32 + in.channels * 8, stream, in, out);
  if (runs == 0) return;
  sum_runs(name, out.partial, out.d_weight, runs, in.channels, stream);
  if (out.d_bias != nullptr)
    sum_runs(name, out.partial + runs * in.channels, out.d_bias, runs, in.channels, stream);
}

}  // namespace

void rms_norm_forward(const Norm& norm, Stream stream) {
  norm_forward<false>("rms_norm.forward", norm, stream);
}
void rms_norm_backward(const Norm& norm, const NormGradient& gradient, Stream stream) {
  norm_backward<false>("rms_norm.backward", norm, gradient, stream);
}
void layer_norm_forward(const Norm& norm, Stream stream) {
  norm_forward<true>("layer_norm.forward", norm, stream);
}
void layer_norm_backward(const Norm& norm, const NormGradient& gradient, Stream stream) {
  norm_backward<true>("layer_norm.backward", norm, gradient, stream);
}

}  // namespace longhaul::kernels::cuda
