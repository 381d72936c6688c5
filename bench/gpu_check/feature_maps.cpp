// Checks and timings of features and gated against their equations in fp64.
#include <cmath>

#include "gpu_check/session.h"
#include "kernels/feature_maps/cuda.h"

namespace longhaul::gpu_check {
namespace {

using kernels::FeatureMap;
using kernels::Turn;

size_t at(int64_t i) { return static_cast<size_t>(i); }

const char* name_of(FeatureMap map) {
  return map == FeatureMap::kNone   ? "identity"
         : map == FeatureMap::kSilu ? "silu"
         : map == FeatureMap::kRelu ? "relu"
                                    : "sigmoid";
}
struct Mapped {
  double value, slope;
};
Mapped mapped(FeatureMap map, double x) {
  const double s = 1 / (1 + std::exp(-x));
  switch (map) {
    case FeatureMap::kSilu:
      return {x * s, s * (1 + x * (1 - s))};
    case FeatureMap::kSigmoid:
      return {s, s * (1 - s)};
    case FeatureMap::kRelu:
      return {x > 0 ? x : 0, x > 0 ? 1.0 : 0.0};
    default:
      return {x, 1};
  }
}

struct FeatureCase {
  int64_t tokens;
  int heads, head_dim;
  FeatureMap map;
  Turn turn;
  bool shared = false;  // all heads turn by the same angles
  int64_t apart = 0;    // elements between the rows of x beyond its channels
};

struct FeatureReference {
  std::vector<double> y, d_x, d_cos, d_sin;
};

// One channel, or pair of channels, of one head of one token.
void turn_one(const FeatureCase& which, const std::vector<double>& x, const std::vector<double>& cos,
              const std::vector<double>& sin, const std::vector<double>& d_y, int64_t row, int64_t c,
              FeatureReference& want) {
  const int64_t dim = which.head_dim, t = row / which.heads, head = row % which.heads;
  const Mapped a = mapped(which.map, x[at(row * dim + c)]);
  if (which.turn == Turn::kNone) {
    want.y[at(row * dim + c)] = a.value;
    want.d_x[at(row * dim + c)] = a.slope * d_y[at(row * dim + c)];
    return;
  }
  const bool cosine = which.turn == Turn::kCosine;
  const int64_t of_head = cosine ? dim : dim / 2;
  const size_t angle = at(which.shared ? t * of_head + c : (t * which.heads + head) * of_head + c);
  const double co = cos[angle], si = sin[angle];
  if (cosine) {
    const size_t first = at(row * 2 * dim + c), second = first + at(dim);
    want.y[first] = a.value * co, want.y[second] = a.value * si;
    want.d_x[at(row * dim + c)] = a.slope * (d_y[first] * co + d_y[second] * si);
    want.d_cos[angle] += d_y[first] * a.value, want.d_sin[angle] += d_y[second] * a.value;
    return;
  }
  const size_t first = at(row * dim + c), second = first + at(of_head);
  const Mapped b = mapped(which.map, x[second]);
  want.y[first] = a.value * co - b.value * si, want.y[second] = b.value * co + a.value * si;
  want.d_x[first] = a.slope * (d_y[first] * co + d_y[second] * si);
  want.d_x[second] = b.slope * (d_y[second] * co - d_y[first] * si);
  want.d_cos[angle] += d_y[first] * a.value + d_y[second] * b.value;
  want.d_sin[angle] += d_y[second] * a.value - d_y[first] * b.value;
}

void check_features(Session& session, const FeatureCase& which) {
  const int64_t width = int64_t{which.heads} * which.head_dim, stride = width + which.apart,
                rows = which.tokens * which.heads, half = which.turn == Turn::kRotary ? 2 : 1,
                doubled = which.turn == Turn::kCosine ? 2 : 1,
                angles = (which.shared ? which.head_dim : width) / half;
  const bool turns = which.turn != Turn::kNone;
  Buffer<Bf16> x(random_bf16(session, which.tokens * stride, 2)),
      d_y(random_bf16(session, which.tokens * width * doubled));
  Buffer<float> cos(random_fp32(session, turns ? which.tokens * angles : 1)),
      sin(random_fp32(session, turns ? which.tokens * angles : 1));
  std::vector<double> in;
  for (int64_t i = 0; i < which.tokens * width; ++i)
    in.push_back(kernels::cuda::to_float(x.host[at(i / width * stride + i % width)]));
  const auto zeros = [](int64_t count) { return std::vector<double>(at(count), 0); };
  FeatureReference want{zeros(d_y.size()), zeros(which.tokens * width), zeros(cos.size()), zeros(cos.size())};
  const std::vector<double> wide_cos = widened(cos.host), wide_sin = widened(sin.host), g = widened(d_y.host);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t c = 0; c < which.head_dim / half; ++c)
      turn_one(which, in, wide_cos, wide_sin, g, row, c, want);
  }
  const kernels::cuda::Features call{which.tokens,
                                     which.heads,
                                     which.head_dim,
                                     which.map,
                                     which.turn,
                                     x.device(),
                                     stride,
                                     turns ? cos.device() : nullptr,
                                     turns ? sin.device() : nullptr,
                                     turns ? static_cast<int>(angles) : 0};
  auto y = Buffer<Bf16>::output(d_y.size()), d_x = Buffer<Bf16>::output(which.tokens * width);
  auto d_cos = Buffer<float>::output(cos.size()), d_sin = Buffer<float>::output(cos.size());
  kernels::cuda::features_forward(call, y.device(), nullptr);
  kernels::cuda::features_backward(
      call, {d_y.device(), d_x.device(), turns ? d_cos.device() : nullptr, turns ? d_sin.device() : nullptr},
      nullptr);
  kernels::cuda::runtime::synchronize();
  const std::string name = std::to_string(which.heads) + " × " + std::to_string(which.head_dim) + ", " +
                           name_of(which.map) +
                           (!turns                        ? ""
                            : which.turn == Turn::kCosine ? ", cosine turn"
                                                          : ", rotary turn") +
                           (which.shared ? ", shared" : "");
  session.compare("features", name, "y", y, want.y, kBf16);
  session.compare("features", name, "d_x", d_x, want.d_x, kBf16);
  if (!turns) return;
  session.compare("features", name, "d_cos", d_cos, want.d_cos, kFp32);
  session.compare("features", name, "d_sin", d_sin, want.d_sin, kFp32);
}

void check_gated(Session& session, FeatureMap map, int64_t rows, int64_t channels, int64_t apart) {
  const int64_t count = rows * channels, stride = channels + apart;
  Buffer<Bf16> n(random_bf16(session, count)), u(random_bf16(session, rows * stride, 2)),
      d_y(random_bf16(session, count));
  const std::vector<double> of_n = widened(n.host), of_u = widened(u.host), g = widened(d_y.host);
  std::vector<double> want(at(count)), want_n(at(count)), want_u(at(count));
  for (int64_t i = 0; i < count; ++i) {
    const Mapped gate = mapped(map, of_u[at(i / channels * stride + i % channels)]);
    want[at(i)] = of_n[at(i)] * gate.value;
    want_n[at(i)] = g[at(i)] * gate.value;
    want_u[at(i)] = g[at(i)] * of_n[at(i)] * gate.slope;
  }
  auto y = Buffer<Bf16>::output(count), d_n = Buffer<Bf16>::output(count), d_u = Buffer<Bf16>::output(count);
  const kernels::cuda::Gated call{rows, channels, map, n.device(), u.device(), channels, stride};
  kernels::cuda::gated_forward(call, y.device(), nullptr);
  kernels::cuda::gated_backward(call, d_y.device(), d_n.device(), d_u.device(), nullptr);
  kernels::cuda::runtime::synchronize();
  const std::string name = std::to_string(rows) + " × " + std::to_string(channels) + ", " + name_of(map);
  session.compare("gated", name, "y", y, want, kBf16);
  session.compare("gated", name, "d_n", d_n, want_n, kBf16);
  session.compare("gated", name, "d_u", d_u, want_u, kBf16);
}

}  // namespace

void check_feature_maps(Session& session) {
  for (const FeatureMap map :
       {FeatureMap::kNone, FeatureMap::kSilu, FeatureMap::kRelu, FeatureMap::kSigmoid}) {
    check_features(session, {37, 3, 16, map, Turn::kNone, false, 8});
    check_features(session, {9, 2, 20, map, Turn::kCosine});
    check_features(session, {9, 3, 24, map, Turn::kRotary, true});
    check_gated(session, map, 21, 96, 8);
  }
  check_features(session, {5, 4, 10, FeatureMap::kSilu, Turn::kRotary, false, 3});
  check_features(session, {5, 3, 9, FeatureMap::kRelu, Turn::kCosine, true, 7});
  check_features(session, {2, 40, 128, FeatureMap::kSilu, Turn::kRotary});
  check_gated(session, FeatureMap::kSilu, 7, 13, 4);
}

void time_feature_maps(Session& session) {
  const int64_t rows = 16384, width = 4096, count = rows * width;
  Buffer<Bf16> x(random_bf16(session, count)), u(x.host), d_y(std::vector<Bf16>(at(2 * count)));
  Buffer<float> cos(random_fp32(session, rows * 128)), sin(cos.host);
  auto y = Buffer<Bf16>::output(2 * count), d_x = Buffer<Bf16>::output(count),
       d_u = Buffer<Bf16>::output(count);
  const double values = static_cast<double>(count);
  const kernels::cuda::Gated gated{rows, width, FeatureMap::kSilu, x.device(), u.device(), width, width};
  session.time("gated forward", "16384 × 4096, silu", 6 * values, 0,
               [&] { kernels::cuda::gated_forward(gated, y.device(), nullptr); });
  session.time("gated backward", "16384 × 4096, silu", 10 * values, 0, [&] {
    kernels::cuda::gated_backward(gated, d_y.device(), d_x.device(), d_u.device(), nullptr);
  });
  kernels::cuda::Features features{rows,       32,    128,     FeatureMap::kSilu, Turn::kNone,
                                   x.device(), width, nullptr, nullptr,           0};
  session.time("features forward", "16384 × 32 × 128, silu", 4 * values, 0,
               [&] { kernels::cuda::features_forward(features, y.device(), nullptr); });
  features.turn = Turn::kCosine;
  features.cos = cos.device(), features.sin = sin.device(), features.angles = 128;
  session.time("features forward", "16384 × 32 × 128, silu, cosine turn", 6 * values, 0,
               [&] { kernels::cuda::features_forward(features, y.device(), nullptr); });
  session.time("features backward", "16384 × 32 × 128, silu, cosine turn", 8 * values, 0, [&] {
    kernels::cuda::features_backward(features, {d_y.device(), d_x.device(), nullptr, nullptr}, nullptr);
  });
}

}  // namespace longhaul::gpu_check
