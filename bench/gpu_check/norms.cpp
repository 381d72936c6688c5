// Checks and timings of rms_norm and layer_norm, with residual and gate, against their equations in fp64.
#include <cmath>

#include "gpu_check/session.h"
#include "kernels/norm/cuda.h"

namespace longhaul::gpu_check {
namespace {

using kernels::cuda::GateKind;

struct Case {
  const char* name;
  int64_t rows;
  int channels;
  bool centred, residual, bias;
  GateKind gate;
  float alpha = 1, beta = 1;  // powers of two: products with them are exact, whatever the compiler fuses
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"one row", 1, 64, false, false, false, GateKind::kNone},
      {"odd channels", 5, 13, false, true, false, GateKind::kSigmoid},
      {"residual and gate", 40, 768, false, true, false, GateKind::kSigmoid},
      {"silu gate, more rows than runs", 700, 72, false, false, false, GateKind::kSilu},
      {"layer norm", 33, 768, true, false, true, GateKind::kNone},
      {"layer norm, odd channels, residual", 9, 1101, true, true, true, GateKind::kNone},
      {"scaled join", 30, 96, false, true, false, GateKind::kNone, 0.5f, 2},
      {"layer norm, scaled join", 11, 37, true, true, true, GateKind::kNone, 2, 0.25f},
      {"layer norm without bias", 530, 40, true, false, false, GateKind::kNone},
      {"heads of 64, groups of four threads", 1100, 64, false, true, false, GateKind::kNone},
      {"heads of 128", 70, 128, false, false, false, GateKind::kSigmoid},
      {"eight channels, a thread a row", 300, 8, true, false, true, GateKind::kNone},
      {"a row of one warp", 12, 512, true, true, true, GateKind::kNone},
      {"a row of several warps, several rows a block", 1030, 1024, false, true, false, GateKind::kNone},
      {"a row of all warps", 3, 4104, true, true, true, GateKind::kNone, 1, 0.5f},
      {"a row of all warps, odd, gate", 2, 5121, false, false, false, GateKind::kSigmoid},
      {"the widest that is kept whole", 2, 8192, false, true, false, GateKind::kNone},
      {"wide", 514, 8200, false, true, false, GateKind::kNone},
      {"wide layer norm, odd", 3, 9001, true, false, true, GateKind::kNone},
      {"wide with gate", 2, 16384, false, false, false, GateKind::kSilu},
  };
  return all;
}

double act(GateKind kind, double x) {
  const double s = 1 / (1 + std::exp(-x));
  return kind == GateKind::kNone ? 1 : kind == GateKind::kSigmoid ? s : x * s;
}
double act_slope(GateKind kind, double x) {
  const double s = 1 / (1 + std::exp(-x));
  return kind == GateKind::kSigmoid ? s * (1 - s) : s * (1 + x * (1 - s));
}

struct Reference {
  std::vector<double> h, y, d_x, d_branch, d_gate, d_weight, d_bias;
};
struct Inputs {
  std::vector<double> x, residual, weight, bias, gate, d_y, d_residual;
};

void reference_row(const Case& which, const Inputs& in, double eps, int64_t row, Reference& out) {
  const size_t base = static_cast<size_t>(row * which.channels), count = static_cast<size_t>(which.channels);
  double mean = 0, squares = 0, mean_d = 0, mean_dot = 0;
  for (size_t c = 0; c < count; ++c) {
    out.h[base + c] = in.x[base + c];
    // Rounded as the kernel rounds, so that both normalise the same numbers.
    if (which.residual)
      out.h[base + c] = kernels::cuda::to_float(kernels::cuda::to_bf16(
          static_cast<float>(which.alpha * in.x[base + c] + which.beta * in.residual[base + c])));
    if (which.centred) mean += out.h[base + c] / which.channels;
  }
  for (size_t c = 0; c < count; ++c) squares += (out.h[base + c] - mean) * (out.h[base + c] - mean);
  const double inverse = 1 / std::sqrt(squares / which.channels + eps);
  std::vector<double> n(count), d(count);
  for (size_t c = 0; c < count; ++c) {
    const size_t i = base + c;
    const double gate = which.gate == GateKind::kNone ? 0 : in.gate[i], bias = which.bias ? in.bias[c] : 0;
    n[c] = (out.h[i] - mean) * inverse;
    const double plain = n[c] * in.weight[c] + bias, g = in.d_y[i] * act(which.gate, gate);
    out.y[i] = plain * act(which.gate, gate);
    out.d_gate[i] = in.d_y[i] * plain * act_slope(which.gate, gate);
    out.d_weight[c] += g * n[c];
    out.d_bias[c] += g;
    d[c] = g * in.weight[c];
    if (which.centred) mean_d += d[c] / which.channels;
    mean_dot += d[c] * n[c] / which.channels;
  }
  for (size_t c = 0; c < count; ++c) {
    const double d_h =
        inverse * (d[c] - mean_d - n[c] * mean_dot) + (which.residual ? in.d_residual[base + c] : 0);
    out.d_x[base + c] = which.alpha * d_h;
    out.d_branch[base + c] = which.beta * d_h;
  }
}

void check_case(Session& session, const Case& which) {
  const int64_t count = which.rows * which.channels;
  Buffer<Bf16> x(random_bf16(session, count)), residual(random_bf16(session, count)),
      gate(random_bf16(session, count)), d_y(random_bf16(session, count)),
      d_residual(random_bf16(session, count));
  Buffer<float> weight(random_fp32(session, which.channels)), bias(random_fp32(session, which.channels));
  Buffer<float> d_weight(random_fp32(session, which.channels)), d_bias(random_fp32(session, which.channels));
  auto h = Buffer<Bf16>::output(count), y = Buffer<Bf16>::output(count), d_x = Buffer<Bf16>::output(count),
       d_branch = Buffer<Bf16>::output(count), d_gate = Buffer<Bf16>::output(count);
  auto mean = Buffer<float>::output(which.rows), inverse = Buffer<float>::output(which.rows);
  auto partial = Buffer<float>::output(kernels::cuda::norm_workspace_bytes(which.rows, which.channels) / 4);
  const Inputs in{widened(x.host),    widened(residual.host), widened(weight.host),    widened(bias.host),
                  widened(gate.host), widened(d_y.host),      widened(d_residual.host)};
  const std::vector<double> zeros(static_cast<size_t>(count), 0);
  Reference want{zeros, zeros, zeros, zeros, zeros, widened(d_weight.host), widened(d_bias.host)};
  for (int64_t row = 0; row < which.rows; ++row) reference_row(which, in, 1e-5, row, want);

  kernels::cuda::Norm norm{which.rows,
                           which.channels,
                           1e-5f,
                           which.alpha,
                           which.beta,
                           x.device(),
                           which.residual ? residual.device() : nullptr,
                           which.residual ? h.device() : nullptr,
                           weight.device(),
                           which.bias ? bias.device() : nullptr,
                           which.gate,
                           which.gate == GateKind::kNone ? nullptr : gate.device(),
                           y.device(),
                           which.centred ? mean.device() : nullptr,
                           inverse.device()};
  (which.centred ? kernels::cuda::layer_norm_forward : kernels::cuda::rms_norm_forward)(norm, nullptr);
  if (which.residual) norm.x = h.device();
  const kernels::cuda::NormGradient gradient{d_y.device(),
                                             which.residual ? d_residual.device() : nullptr,
                                             d_x.device(),
                                             which.residual ? d_branch.device() : nullptr,
                                             d_gate.device(),
                                             d_weight.device(),
                                             which.bias ? d_bias.device() : nullptr,
                                             partial.device()};
  (which.centred ? kernels::cuda::layer_norm_backward : kernels::cuda::rms_norm_backward)(norm, gradient,
                                                                                          nullptr);
  kernels::cuda::runtime::synchronize();
  const std::string op = which.centred ? "layer_norm" : "rms_norm";
  if (which.residual) session.compare(op, which.name, "h", h, want.h, kExact);
  session.compare(op, which.name, "y", y, want.y, kBf16);
  session.compare(op, which.name, "d_x", d_x, want.d_x, kBf16);
  if (which.residual) session.compare(op, which.name, "d_branch", d_branch, want.d_branch, kBf16);
  if (which.gate != GateKind::kNone) session.compare(op, which.name, "d_gate", d_gate, want.d_gate, kBf16);
  session.compare(op, which.name, "d_weight", d_weight, want.d_weight, kFp32);
  if (which.bias) session.compare(op, which.name, "d_bias", d_bias, want.d_bias, kFp32);
  session.expect(op, which.name, "workspace",
                 partial.guards_hold() && mean.guards_hold() && inverse.guards_hold(),
                 "wrote outside a tensor");
}

// What all timings share: making random numbers takes longer than the kernels.
struct Timed {
  Buffer<Bf16> x, other, d_y, y, d_x, d_gate;
  Buffer<float> weight, d_weight;
};

void time_shape(Session& session, const Timed& on, int64_t rows, int channels) {
  auto mean = Buffer<float>::output(rows), inverse = Buffer<float>::output(rows),
       partial = Buffer<float>::output(kernels::cuda::norm_workspace_bytes(rows, channels) / 4);
  kernels::cuda::Norm norm{rows,
                           channels,
                           1e-6f,
                           1,
                           1,
                           on.x.device(),
                           nullptr,
                           nullptr,
                           on.weight.device(),
                           nullptr,
                           GateKind::kNone,
                           nullptr,
                           on.y.device(),
                           mean.device(),
                           inverse.device()};
  const kernels::cuda::NormGradient gradient{
      on.d_y.device(),      nullptr, on.d_x.device(), nullptr, on.d_gate.device(),
      on.d_weight.device(), nullptr, partial.device()};
  const std::string shape = std::to_string(rows) + " × " + std::to_string(channels);
  const double values = static_cast<double>(rows * channels);
  session.time("rms_norm forward", shape, 4 * values, 0,
               [&] { kernels::cuda::rms_norm_forward(norm, nullptr); });
  session.time("rms_norm backward", shape, 6 * values, 0,
               [&] { kernels::cuda::rms_norm_backward(norm, gradient, nullptr); });
  session.time("layer_norm forward", shape, 4 * values, 0,
               [&] { kernels::cuda::layer_norm_forward(norm, nullptr); });
  session.time("layer_norm backward", shape, 6 * values, 0,
               [&] { kernels::cuda::layer_norm_backward(norm, gradient, nullptr); });
  kernels::cuda::NormGradient joined = gradient;
  joined.d_residual = on.other.device();
  session.time("rms_norm backward of a join", shape, 8 * values, 0,
               [&] { kernels::cuda::rms_norm_backward(norm, joined, nullptr); });
  norm.gate_kind = GateKind::kSigmoid;
  norm.gate = on.other.device();
  session.time("rms_norm gated forward", shape, 6 * values, 0,
               [&] { kernels::cuda::rms_norm_forward(norm, nullptr); });
  session.time("rms_norm gated backward", shape, 10 * values, 0,
               [&] { kernels::cuda::rms_norm_backward(norm, gradient, nullptr); });
}

}  // namespace

void check_norms(Session& session) {
  for (const Case& which : cases()) check_case(session, which);
}

void time_norms(Session& session) {
  constexpr int64_t kCount = int64_t{16384} * 4096;
  const auto input = [&] { return Buffer<Bf16>(random_bf16(session, kCount)); };
  const auto output = [] { return Buffer<Bf16>::output(kCount); };
  const Timed on{input(),
                 input(),
                 input(),
                 output(),
                 output(),
                 output(),
                 Buffer<float>(random_fp32(session, 4096)),
                 Buffer<float>(random_fp32(session, 4096))};
  time_shape(session, on, 16384, 4096);
  time_shape(session, on, 16384, 768);
  time_shape(session, on, 262144, 128);
}

}  // namespace longhaul::gpu_check
