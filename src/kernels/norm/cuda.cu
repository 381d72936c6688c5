// A row is kept in the registers of a group of threads (row_share in kernels/cuda/rows.h), so it is read
// once. Backward a block takes a run of rows and keeps the sums of the weights' gradients in registers too,
// because a thread has the same channels in every row. Equations: cuda.h.
#include "kernels/norm/cuda.h"

#include "kernels/cuda/elements.h"

namespace longhaul::kernels::cuda {
namespace {

constexpr int kMostThreads = 512, kMostWarps = kMostThreads / kWarp;
constexpr int kFewUnits = 2, kManyUnits = 4;  // of a thread
static_assert(kMostThreads * kManyUnits * kUnit == kMostNormChannels);

struct Activated {
  float value, slope;
};
LONGHAUL_DEVICE Activated activation(GateKind kind, float x) {
  const float s = sigmoid(x), slope = s * (1.f - s);
  if (kind == GateKind::kSilu) return {x * s, s + x * slope};
  return {s, slope};
}

// The sums over the threads of each group. `scratch` holds kCount floats for each warp; threads may still be
// reading it when this returns.
template <int kCount>
LONGHAUL_DEVICE void group_sum(float (&x)[kCount], int group, float* scratch) {
  for (int mask = (group < kWarp ? group : kWarp) / 2; mask > 0; mask /= 2) {
    LONGHAUL_UNROLL
    for (int i = 0; i < kCount; ++i) x[i] += shuffle_xor(x[i], mask);
  }
  if (group <= kWarp) return;
  if (lane_index() == 0) {
    LONGHAUL_UNROLL
    for (int i = 0; i < kCount; ++i) scratch[warp_index() * kCount + i] = x[i];
  }
  __syncthreads();
  const float* mine = scratch + static_cast<int>(threadIdx.x) / group * (group / kWarp) * kCount;
  LONGHAUL_UNROLL
  for (int i = 0; i < kCount; ++i) {
    x[i] = 0;
    for (int w = 0; w < group / kWarp; ++w) x[i] += mine[w * kCount + i];
  }
}

template <bool kCentred, int kUnits>
LONGHAUL_KERNEL(kMostThreads)
norm_forward_kernel(Norm in, int group) {
  LONGHAUL_SHARED(shared);
  float* scratch = reinterpret_cast<float*>(shared);
  const int thread = static_cast<int>(threadIdx.x), rows = static_cast<int>(blockDim.x) / group;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * rows + thread / group, base = row * in.channels;
  const bool mine = row < in.rows;
  const auto column = [&](int u) { return (u * group + thread % group) * kUnit; };
  const auto left = [&](int u) { return mine ? in.channels - column(u) : 0; };
  Eight h[kUnits];
  float sum[1] = {0};
  LONGHAUL_UNROLL
  for (int u = 0; u < kUnits; ++u) h[u] = load_eight(in.x + base + column(u), left(u));
  LONGHAUL_UNROLL
  for (int u = 0; u < kUnits; ++u) {
    if (in.residual != nullptr) {
      const Eight other = load_eight(in.residual + base + column(u), left(u));
      LONGHAUL_UNROLL
      for (int i = 0; i < kUnit; ++i)
        h[u].x[i] = to_float(from_float<Bf16>(in.alpha * h[u].x[i] + in.beta * other.x[i]));
      store_eight(in.h + base + column(u), left(u), h[u]);
    }
    LONGHAUL_UNROLL
    for (int i = 0; i < kUnit; ++i) sum[0] += kCentred ? h[u].x[i] : h[u].x[i] * h[u].x[i];
  }
  group_sum(sum, group, scratch);
  float mean = 0;
  if (kCentred) {
    mean = sum[0] / static_cast<float>(in.channels);
    sum[0] = 0;
    LONGHAUL_UNROLL
    for (int u = 0; u < kUnits; ++u) {
      LONGHAUL_UNROLL
      for (int i = 0; i < kUnit; ++i) sum[0] += i < left(u) ? (h[u].x[i] - mean) * (h[u].x[i] - mean) : 0.f;
    }
    group_sum(sum, group, scratch + kMostWarps);
  }
  const float inverse = 1.f / sqrtf(sum[0] / static_cast<float>(in.channels) + in.eps);
  if (mine && thread % group == 0) {
    if (kCentred) in.mean[row] = mean;
    in.inverse[row] = inverse;
  }
  LONGHAUL_UNROLL
  for (int u = 0; u < kUnits; ++u) {
    const int c = column(u);
    const Eight weight = load_eight(in.weight + c, left(u)),
                bias = load_eight(in.bias != nullptr ? in.bias + c : nullptr, left(u));
    Eight gate{};
    if (in.gate_kind != GateKind::kNone) gate = load_eight(in.gate + base + c, left(u));
    LONGHAUL_UNROLL
    for (int i = 0; i < kUnit; ++i) {
      h[u].x[i] = (h[u].x[i] - mean) * inverse * weight.x[i] + bias.x[i];
      if (in.gate_kind != GateKind::kNone) h[u].x[i] *= activation(in.gate_kind, gate.x[i]).value;
    }
    store_eight(in.y + base + c, left(u), h[u]);
  }
}

// What the backward pass keeps in registers. With few units to a thread the next row is loaded while one is
// computed; of the rest as much is kept as fits without spilling, and is otherwise read where it is used.
template <bool kCentred, bool kGated, int kUnits>
struct Backward {
  static constexpr bool kAhead = kUnits <= kFewUnits;
  static constexpr bool kWeight = kAhead && !kCentred && !kGated;
  static constexpr bool kResidual = kAhead && !kGated;
  static constexpr bool kGate = kAhead && kGated;
  static constexpr bool kSums = kAhead && !kGated;
  static constexpr int kGates = kGate ? kUnits : 1, kResiduals = kResidual ? kUnits : 1;
  struct Row {
    Unit h[kUnits], d_y[kUnits], d_residual[kResiduals], gate[kGates];
    float mean = 0, inverse = 0;
  };
};

// What a thread adds up over its rows: one sum for each of its channels, in registers, or, where these are
// short, in shared memory.
template <int kUnits, bool kRegisters>
struct Sums {
  Eight held[kRegisters ? kUnits : 1] = {};
  float* shared;  // [kUnits · 8, threads]

  LONGHAUL_DEVICE explicit Sums(float* memory) : shared(memory + threadIdx.x) {
    for (int k = 0; k < kUnits * kUnit && !kRegisters; ++k) shared[k * blockDim.x] = 0;
  }
  LONGHAUL_DEVICE void add(int u, int i, float x) {
    if (kRegisters)
      held[kRegisters ? u : 0].x[i] += x;
    else
      shared[(u * kUnit + i) * blockDim.x] += x;
  }
  // to[c] = Σ over the groups of the block, in their order, through `buffer` [groups, channels of a group],
  // which may be where the sums lie.
  LONGHAUL_DEVICE void store(int group, int channels, float* buffer, float* to) {
    const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x),
              padded = group * kUnits * kUnit;
    Eight own[kUnits];
    LONGHAUL_UNROLL
    for (int u = 0; u < kUnits; ++u) {
      LONGHAUL_UNROLL
      for (int i = 0; i < kUnit; ++i)
        own[u].x[i] = kRegisters ? held[kRegisters ? u : 0].x[i] : shared[(u * kUnit + i) * blockDim.x];
    }
    __syncthreads();
    LONGHAUL_UNROLL
    for (int u = 0; u < kUnits; ++u)
      store_eight(buffer + thread / group * padded + (u * group + thread % group) * kUnit, kUnit, own[u]);
    __syncthreads();
    for (int c = thread; c < channels; c += threads) {
      float sum = 0;
      for (int g = 0; g < threads / group; ++g) sum += buffer[g * padded + c];
      to[c] = sum;
    }
  }
};

template <bool kCentred, bool kGated, int kUnits>
LONGHAUL_KERNEL(kMostThreads)
norm_backward_kernel(Norm in, NormGradient out, int group) {
  LONGHAUL_SHARED(shared);
  using Form = Backward<kCentred, kGated, kUnits>;
  float *scratch = reinterpret_cast<float*>(shared), *buffer = scratch + 4 * kMostWarps;
  const int thread = static_cast<int>(threadIdx.x), rows = static_cast<int>(blockDim.x) / group;
  const int64_t each = rows_per_run(in.rows), begin = blockIdx.x * each,
                end = begin + each < in.rows ? begin + each : in.rows;
  const auto column = [&](int u) { return (u * group + thread % group) * kUnit; };
  const auto load_residual = [&](int u, int64_t row) {
    if (out.d_residual == nullptr) return Unit{};
    return load_unit(out.d_residual + row * in.channels + column(u), row < end ? in.channels - column(u) : 0);
  };
  const auto load_gate = [&](int u, int64_t row) {
    return load_unit(in.gate + row * in.channels + column(u), row < end ? in.channels - column(u) : 0);
  };
  const auto load = [&](int64_t row) {
    typename Form::Row x;
    const int64_t base = row * in.channels;
    LONGHAUL_UNROLL
    for (int u = 0; u < kUnits; ++u) {
      const int c = column(u), left = row < end ? in.channels - c : 0;
      x.h[u] = load_unit(in.x + base + c, left);
      x.d_y[u] = load_unit(out.d_y + base + c, left);
      if (Form::kGate) x.gate[Form::kGate ? u : 0] = load_gate(u, row);
      if (Form::kResidual) x.d_residual[Form::kResidual ? u : 0] = load_residual(u, row);
    }
    if (row < end) {
      if (kCentred) x.mean = in.mean[row];
      x.inverse = in.inverse[row];
    }
    return x;
  };
  Eight weight[kUnits];
  const int held = kUnits * kUnit * static_cast<int>(blockDim.x);
  Sums<kUnits, Form::kSums> d_weight(buffer), d_bias(buffer + (kCentred ? held : 0));
  const auto load_weight = [&](int u) { return load_eight(in.weight + column(u), in.channels - column(u)); };
  LONGHAUL_UNROLL
  for (int u = 0; u < kUnits && Form::kWeight; ++u) weight[u] = load_weight(u);
  typename Form::Row next;
  if (Form::kAhead) next = load(begin + thread / group);
  int turn = 0;  // two halves of `scratch` in turn: the barrier of a row keeps the next from this one
  for (int64_t first = begin; first < end; first += rows, turn ^= 1) {
    const int64_t row = first + thread / group, base = row * in.channels;
    const typename Form::Row now = Form::kAhead ? next : load(row);
    if (Form::kAhead) next = load(row + rows);
    float sum[kCentred ? 2 : 1] = {};
    LONGHAUL_UNROLL
    for (int u = 0; u < kUnits; ++u) {
      const Eight h = widened(now.h[u]), d_y = widened(now.d_y[u]);
      Eight gate;
      if (kGated) gate = widened(Form::kGate ? now.gate[Form::kGate ? u : 0] : load_gate(u, row));
      const Eight w = Form::kWeight ? weight[u] : load_weight(u);
      Eight d_gate;
      LONGHAUL_UNROLL
      for (int i = 0; i < kUnit; ++i) {
        const float n = (h.x[i] - now.mean) * now.inverse;
        float g = d_y.x[i];
        if (kGated) {
          const Activated act = activation(in.gate_kind, gate.x[i]);
          d_gate.x[i] = g * n * w.x[i] * act.slope;
          g *= act.value;
        }
        d_weight.add(u, i, g * n);
        sum[0] += g * w.x[i] * n;
        if (kCentred) {
          d_bias.add(u, i, g);
          sum[kCentred ? 1 : 0] += g * w.x[i];
        }
      }
      if (kGated) store_eight(out.d_gate + base + column(u), row < end ? in.channels - column(u) : 0, d_gate);
    }
    group_sum(sum, group, scratch + turn * 2 * kMostWarps);
    const float mean_dot = sum[0] / static_cast<float>(in.channels),
                mean_d = kCentred ? sum[kCentred ? 1 : 0] / static_cast<float>(in.channels) : 0.f;
    LONGHAUL_UNROLL
    for (int u = 0; u < kUnits; ++u) {
      const int c = column(u), left = row < end ? in.channels - c : 0;
      const Eight h = widened(now.h[u]), d_y = widened(now.d_y[u]);
      Eight gate;
      if (kGated) gate = widened(Form::kGate ? now.gate[Form::kGate ? u : 0] : load_gate(u, row));
      const Eight w = Form::kWeight ? weight[u] : load_weight(u);
      Eight d_h = widened(Form::kResidual ? now.d_residual[Form::kResidual ? u : 0] : load_residual(u, row)),
            d_branch;
      LONGHAUL_UNROLL
      for (int i = 0; i < kUnit; ++i) {
        const float n = (h.x[i] - now.mean) * now.inverse,
                    g = kGated ? d_y.x[i] * activation(in.gate_kind, gate.x[i]).value : d_y.x[i];
        d_h.x[i] += now.inverse * (g * w.x[i] - mean_d - n * mean_dot);
        d_branch.x[i] = in.beta * d_h.x[i];
        d_h.x[i] *= in.alpha;
      }
      store_eight(out.d_x + base + c, left, d_h);
      if (out.d_branch != nullptr) store_eight(out.d_branch + base + c, left, d_branch);
    }
  }
  float* to = out.partial + static_cast<int64_t>(blockIdx.x) * in.channels;
  d_weight.store(group, in.channels, buffer, to);
  if (kCentred && out.d_bias != nullptr)
    d_bias.store(group, in.channels, buffer, to + static_cast<int64_t>(gridDim.x) * in.channels);
}

template <bool kCentred, int kUnits>
void norm_forward(const char* name, const Norm& in, Stream stream) {
  const RowShare share = row_share(in.channels, kUnits);
  launch(name, norm_forward_kernel<kCentred, kUnits>, divide_up(in.rows, share.threads / share.group),
         share.threads, 2 * kMostWarps * 4, stream, in, share.group);
}
template <bool kCentred, bool kGated, int kUnits>
void norm_backward(const char* name, const Norm& in, const NormGradient& out, Stream stream) {
  const RowShare share = row_share(in.channels, kUnits);
  const int64_t runs = row_runs(in.rows);
  const int sums = share.threads * kUnits * kUnit,
            kept = kCentred && !Backward<kCentred, kGated, kUnits>::kSums ? 2 * sums : sums;
  launch(name, norm_backward_kernel<kCentred, kGated, kUnits>, runs, share.threads,
         (4 * kMostWarps + kept) * 4, stream, in, out, share.group);
  sum_runs(name, out.partial, out.d_weight, kCentred ? out.d_bias : nullptr, runs, in.channels, stream);
}

bool few_units(const Norm& in) { return in.channels <= kMostThreads * kFewUnits * kUnit; }

}  // namespace

void rms_norm_forward(const Norm& norm, Stream stream) {
  (few_units(norm) ? norm_forward<false, kFewUnits> : norm_forward<false, kManyUnits>)("rms_norm.forward",
                                                                                       norm, stream);
}
void rms_norm_backward(const Norm& norm, const NormGradient& gradient, Stream stream) {
  const bool gated = norm.gate_kind != GateKind::kNone;
  const auto form =
      few_units(norm) ? gated ? norm_backward<false, true, kFewUnits> : norm_backward<false, false, kFewUnits>
      : gated ? norm_backward<false, true, kManyUnits>
                      : norm_backward<false, false, kManyUnits>;
  form("rms_norm.backward", norm, gradient, stream);
}
void layer_norm_forward(const Norm& norm, Stream stream) {
  (few_units(norm) ? norm_forward<true, kFewUnits> : norm_forward<true, kManyUnits>)("layer_norm.forward",
                                                                                     norm, stream);
}
void layer_norm_backward(const Norm& norm, const NormGradient& gradient, Stream stream) {
  (few_units(norm) ? norm_backward<true, false, kFewUnits>
                   : norm_backward<true, false, kManyUnits>)("layer_norm.backward", norm, gradient, stream);
}

}  // namespace longhaul::kernels::cuda
