// Checks and timings of swiglu, silu, bias + GeLU, rotary and embedding against their equations in fp64.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "gpu_check/session.h"
#include "kernels/activation/cuda.h"
#include "kernels/embedding/cuda.h"
#include "kernels/rotary_heads/cuda.h"

namespace longhaul::gpu_check {
namespace {

double logistic(double x) { return 1 / (1 + std::exp(-x)); }
size_t at(int64_t i) { return static_cast<size_t>(i); }
std::string size_name(int64_t rows, int64_t width) {
  return std::to_string(rows) + " × " + std::to_string(width);
}

void check_swiglu(Session& session, int64_t rows, int64_t width) {
  Buffer<Bf16> x(random_bf16(session, rows * 2 * width, 2)), d_y(random_bf16(session, rows * width));
  auto y = Buffer<Bf16>::output(rows * width), d_x = Buffer<Bf16>::output(rows * 2 * width);
  const std::vector<double> in = widened(x.host), g = widened(d_y.host);
  std::vector<double> want(g.size()), want_d(in.size());
  for (int64_t i = 0; i < rows * width; ++i) {
    const size_t gate = at(i / width * 2 * width + i % width), up = gate + at(width);
    const double s = logistic(in[gate]);
    want[at(i)] = in[gate] * s * in[up];
    want_d[gate] = g[at(i)] * in[up] * s * (1 + in[gate] * (1 - s));
    want_d[up] = g[at(i)] * in[gate] * s;
  }
  kernels::cuda::swiglu_forward(x.device(), y.device(), rows, width, nullptr);
  kernels::cuda::swiglu_backward(x.device(), d_y.device(), d_x.device(), rows, width, nullptr);
  kernels::cuda::runtime::synchronize();
  session.compare("swiglu", size_name(rows, width), "y", y, want, kBf16);
  session.compare("swiglu", size_name(rows, width), "d_x", d_x, want_d, kBf16);
}

void check_silu(Session& session, int64_t n) {
  Buffer<Bf16> x(random_bf16(session, n, 3)), d_y(random_bf16(session, n));
  auto y = Buffer<Bf16>::output(n), d_x = Buffer<Bf16>::output(n);
  const std::vector<double> in = widened(x.host), g = widened(d_y.host);
  std::vector<double> want(in.size()), want_d(in.size());
  for (size_t i = 0; i < in.size(); ++i) {
    const double s = logistic(in[i]);
    want[i] = in[i] * s;
    want_d[i] = g[i] * s * (1 + in[i] * (1 - s));
  }
  kernels::cuda::silu_forward(x.device(), y.device(), n, nullptr);
  kernels::cuda::silu_backward(x.device(), d_y.device(), d_x.device(), n, nullptr);
  kernels::cuda::runtime::synchronize();
  session.compare("silu", std::to_string(n), "y", y, want, kBf16);
  session.compare("silu", std::to_string(n), "d_x", d_x, want_d, kBf16);
}

void check_bias_gelu(Session& session, int64_t rows, int64_t width, bool with_bias, double spread) {
  Buffer<Bf16> x(random_bf16(session, rows * width, spread)), d_y(random_bf16(session, rows * width));
  Buffer<float> bias(random_fp32(session, width)), d_bias(random_fp32(session, width));
  auto y = Buffer<Bf16>::output(rows * width), d_x = Buffer<Bf16>::output(rows * width);
  auto workspace = Buffer<unsigned char>::output(kernels::cuda::bias_workspace_bytes(rows, width));
  const std::vector<double> in = widened(x.host), b = widened(bias.host), g = widened(d_y.host);
  std::vector<double> want(in.size()), want_d(in.size()), want_bias = widened(d_bias.host);
  const double root = std::sqrt(2 / M_PI);
  for (int64_t i = 0; i < rows * width; ++i) {
    const double u = in[at(i)] + (with_bias ? b[at(i % width)] : 0),
                 t = std::tanh(root * (u + 0.044715 * u * u * u));
    want[at(i)] = 0.5 * u * (1 + t);
    want_d[at(i)] = g[at(i)] * (0.5 * (1 + t) + 0.5 * u * (1 - t * t) * root * (1 + 3 * 0.044715 * u * u));
    want_bias[at(i % width)] += want_d[at(i)];
  }
  const float* given = with_bias ? bias.device() : nullptr;
  kernels::cuda::bias_gelu_forward(x.device(), given, y.device(), rows, width, nullptr);
  kernels::cuda::bias_gelu_backward(x.device(), given, d_y.device(), d_x.device(),
                                    with_bias ? d_bias.device() : nullptr, workspace.device(), rows, width,
                                    nullptr);
  kernels::cuda::runtime::synchronize();
  const std::string name =
      size_name(rows, width) + (with_bias ? "" : " without bias") + (spread > 10 ? ", saturated" : "");
  session.compare("bias_gelu", name, "y", y, want, kBf16);
  session.compare("bias_gelu", name, "d_x", d_x, want_d, kBf16);
  if (with_bias) session.compare("bias_gelu", name, "d_bias", d_bias, want_bias, kFp32);
  session.expect("bias_gelu", name, "workspace", workspace.guards_hold(), "wrote outside the workspace");
}

void check_bias_gradient(Session& session, int64_t rows, int64_t width) {
  Buffer<Bf16> d_y(random_bf16(session, rows * width));
  Buffer<float> d_bias(random_fp32(session, width));
  auto workspace = Buffer<unsigned char>::output(kernels::cuda::bias_workspace_bytes(rows, width));
  std::vector<double> want = widened(d_bias.host);
  const std::vector<double> g = widened(d_y.host);
  for (int64_t i = 0; i < rows * width; ++i) want[at(i % width)] += g[at(i)];
  kernels::cuda::bias_gradient(d_y.device(), d_bias.device(), workspace.device(), rows, width, nullptr);
  kernels::cuda::runtime::synchronize();
  session.compare("bias gradient", size_name(rows, width), "d_bias", d_bias, want, kFp32);
  session.expect("bias gradient", size_name(rows, width), "workspace", workspace.guards_hold(),
                 "wrote outside the workspace");
}

// Queries, keys and values, `apart` elements more than a row apart, into one tensor; and in place.
struct RotaryCase {
  int64_t tokens;
  int heads, kv_heads, width, pairs, apart;
};

void check_rotary(Session& session, const RotaryCase& which) {
  const auto [tokens, heads, kv_heads, width, pairs, apart] = which;
  const int counts[3] = {heads, kv_heads, kv_heads};
  const int64_t row = (heads + 2 * kv_heads) * width;
  std::vector<Buffer<Bf16>> parts;
  std::vector<double> in(at(tokens * row));
  for (int p = 0, column = 0; p < 3; column += counts[p++] * width) {
    const int64_t stride = counts[p] * width + apart;
    parts.emplace_back(random_bf16(session, tokens * stride));
    for (int64_t t = 0; t < tokens; ++t) {
      for (int c = 0; c < counts[p] * width; ++c)
        in[at(t * row + column + c)] = kernels::cuda::to_float(parts.back().host[at(t * stride + c)]);
    }
  }
  std::vector<float> cosines(at(tokens * pairs)), sines(at(tokens * pairs));
  for (int64_t i = 0; i < tokens * pairs; ++i) {
    const double angle =
        static_cast<double>(i / pairs * 7) * std::pow(10000.0, -static_cast<double>(i % pairs) / pairs);
    cosines[at(i)] = static_cast<float>(std::cos(angle));
    sines[at(i)] = static_cast<float>(std::sin(angle));
  }
  Buffer<float> cos(cosines), sin(sines);
  const std::string name = size_name(tokens, heads) + " + 2 · " + std::to_string(kv_heads) + " heads of " +
                           std::to_string(width) + ", " + std::to_string(pairs) + " pairs";
  for (const bool inverse : {false, true}) {
    std::vector<double> want = in;
    for (int64_t i = 0; i < tokens * (heads + kv_heads) * pairs; ++i) {
      const int64_t t = i / pairs / (heads + kv_heads), head = i / pairs % (heads + kv_heads), j = i % pairs;
      const size_t a = at(t * row + head * width + j), b = a + at(pairs), angle = at(t * pairs + j);
      const double c = cosines[angle], s = inverse ? -sines[angle] : sines[angle];
      want[a] = in[a] * c - in[b] * s;
      want[b] = in[b] * c + in[a] * s;
    }
    auto y = Buffer<Bf16>::output(tokens * row);
    kernels::cuda::Rotary call{tokens,       width, pairs,      inverse, cos.device(),
                               sin.device(), {},    y.device(), row};
    for (int p = 0; p < 3; ++p) {
      call.parts[p] = {parts[at(p)].device(), counts[p] * width + apart, counts[p], p < 2};
    }
    kernels::cuda::rotary(call, nullptr);
    kernels::cuda::runtime::synchronize();
    session.compare("rotary", name, inverse ? "gathered, back" : "gathered", y, want, kBf16);
    for (size_t i = 0; i < in.size(); ++i) y.host[i] = kernels::cuda::to_bf16(static_cast<float>(in[i]));
    y.upload();
    call.parts[0] = {y.device(), row, heads + kv_heads, true};
    call.parts[1] = call.parts[2] = {};
    kernels::cuda::rotary(call, nullptr);
    kernels::cuda::runtime::synchronize();
    session.compare("rotary", name, inverse ? "in place, back" : "in place", y, want, kBf16);
  }
}

// Token ids as the gradient wants them: sorted, equal ones in the order of the tokens.
struct SortedIds {
  explicit SortedIds(const std::vector<int64_t>& unsorted)
      : order(sorted(unsorted)), ids(std::vector<int32_t>(unsorted.size())) {
    for (size_t i = 0; i < unsorted.size(); ++i)
      ids.host[i] = static_cast<int32_t>(unsorted[at(order.host[i])]);
    ids.upload();
  }
  static std::vector<int64_t> sorted(const std::vector<int64_t>& unsorted) {
    std::vector<int64_t> result(unsorted.size());
    std::iota(result.begin(), result.end(), 0);
    std::stable_sort(result.begin(), result.end(),
                     [&](int64_t a, int64_t b) { return unsorted[at(a)] < unsorted[at(b)]; });
    return result;
  }
  Buffer<int64_t> order;
  Buffer<int32_t> ids;
};

// `frequent`: of so many tokens all but one are the id 1.
void check_embedding(Session& session, int64_t tokens, int64_t hidden, int64_t vocabulary, int64_t frequent) {
  std::vector<int64_t> ids(at(tokens));
  for (int64_t& id : ids) {
    id = static_cast<int64_t>(session.random() % static_cast<uint64_t>(vocabulary));
    if (frequent > 0 && session.random() % static_cast<uint64_t>(frequent) > 0) id = 1;
  }
  const SortedIds sorted(ids);
  Buffer<int64_t> ids_on_device(ids);
  Buffer<Bf16> table(random_bf16(session, vocabulary * hidden)), d_out(random_bf16(session, tokens * hidden));
  Buffer<float> sink(random_fp32(session, vocabulary * hidden));
  auto workspace = Buffer<unsigned char>::output(kernels::cuda::embedding_workspace_bytes(tokens, hidden));
  auto out = Buffer<Bf16>::output(tokens * hidden);
  const std::vector<double> rows = widened(table.host), g = widened(d_out.host);
  std::vector<double> want(g.size()), want_sink = widened(sink.host);
  for (int64_t i = 0; i < tokens * hidden; ++i) {
    const size_t from = at(ids[at(i / hidden)] * hidden + i % hidden);
    want[at(i)] = rows[from];
    want_sink[from] += g[at(i)];
  }
  kernels::cuda::embedding_forward(ids_on_device.device(), table.device(), nullptr, nullptr, out.device(),
                                   tokens, hidden, nullptr);
  kernels::cuda::embedding_gradient({tokens, hidden, sorted.ids.device(), sorted.order.device(),
                                     d_out.device(), sink.device(), workspace.device()},
                                    nullptr);
  kernels::cuda::runtime::synchronize();
  const std::string name = size_name(tokens, hidden) + ", " + std::to_string(vocabulary) + " ids" +
                           (frequent > 0 ? ", one of them frequent" : "");
  session.compare("embedding", name, "out", out, want, kExact);
  session.compare("embedding", name, "gradient", sink, want_sink, kFp32);
  session.expect("embedding", name, "workspace", workspace.guards_hold(), "wrote outside the workspace");
}

}  // namespace

void check_fused(Session& session) {
  for (const auto& [rows, width] : {std::pair{3, 5}, {17, 96}, {1, 1000}}) check_swiglu(session, rows, width);
  for (const int64_t n : {1, 8, 4097}) check_silu(session, n);
  check_bias_gelu(session, 3, 5, true, 1);
  check_bias_gelu(session, 600, 96, true, 1);
  check_bias_gelu(session, 9, 1500, false, 30);
  for (const auto& [rows, width] : {std::pair{1, 3}, {600, 96}, {1030, 1032}, {40, 2051}})
    check_bias_gradient(session, rows, width);
  for (const RotaryCase& which : {RotaryCase{21, 3, 1, 64, 32, 0},
                                  {5, 2, 2, 20, 3, 3},
                                  {40, 2, 1, 24, 8, 8},
                                  {3, 9, 5, 128, 32, 16},
                                  {2, 1, 0, 8, 4, 0},
                                  {6, 1, 2, 16, 0, 0}}) {
    check_rotary(session, which);
  }
  check_embedding(session, 150, 96, 40, 0);
  check_embedding(session, 7, 13, 3, 0);
  check_embedding(session, 1, 8, 1, 0);
  check_embedding(session, 96, 1032, 2, 0);    // runs that begin and end where windows do
  check_embedding(session, 500, 133, 300, 9);  // a run of many windows between short ones
  check_embedding(session, 500, 24, 5, 0);     // several such runs side by side
  check_embedding(session, 1300, 24, 1, 0);    // one id alone
}

void time_fused(Session& session) {
  const int64_t rows = 16384, width = 4096, count = rows * width;
  const double values = static_cast<double>(count);
  Buffer<Bf16> x(random_bf16(session, 2 * count)), d_y(random_bf16(session, count));
  auto y = Buffer<Bf16>::output(count), d_x = Buffer<Bf16>::output(2 * count);
  const std::string shape = size_name(rows, width);
  session.time("swiglu forward", shape, 6 * values, 0,
               [&] { kernels::cuda::swiglu_forward(x.device(), y.device(), rows, width, nullptr); });
  session.time("swiglu backward", shape, 10 * values, 0, [&] {
    kernels::cuda::swiglu_backward(x.device(), d_y.device(), d_x.device(), rows, width, nullptr);
  });
  session.time("silu forward", shape, 4 * values, 0,
               [&] { kernels::cuda::silu_forward(x.device(), y.device(), count, nullptr); });
  session.time("silu backward", shape, 6 * values, 0,
               [&] { kernels::cuda::silu_backward(x.device(), d_y.device(), d_x.device(), count, nullptr); });
  Buffer<float> bias(random_fp32(session, width)), d_bias(random_fp32(session, width));
  Buffer<unsigned char> workspace(
      std::vector<unsigned char>(at(kernels::cuda::bias_workspace_bytes(rows, width))));
  session.time("bias_gelu forward", shape, 4 * values, 0, [&] {
    kernels::cuda::bias_gelu_forward(x.device(), bias.device(), y.device(), rows, width, nullptr);
  });
  session.time("bias_gelu backward", shape, 6 * values, 0, [&] {
    kernels::cuda::bias_gelu_backward(x.device(), bias.device(), d_y.device(), d_x.device(), d_bias.device(),
                                      workspace.device(), rows, width, nullptr);
  });
  session.time("bias gradient", shape, 2 * values, 0, [&] {
    kernels::cuda::bias_gradient(d_y.device(), d_bias.device(), workspace.device(), rows, width, nullptr);
  });
  Buffer<float> angles(random_fp32(session, rows * 32));
  kernels::cuda::Rotary rotary{rows, 128,        32,      false, angles.device(), angles.device(),
                               {},   y.device(), 32 * 128};
  rotary.parts[0] = {x.device(), 32 * 128, 32, true};
  session.time("rotary", "16384 × 32 × 128, 32 pairs", 4 * values, 0,
               [&] { kernels::cuda::rotary(rotary, nullptr); });
  rotary.parts[0] = {y.device(), 32 * 128, 32, true};
  session.time("rotary in place", "16384 × 32 × 128, 32 pairs", 2 * values, 0,
               [&] { kernels::cuda::rotary(rotary, nullptr); });
  rotary.parts[0] = {x.device(), 32 * 128, 16, true};
  for (const int p : {1, 2}) rotary.parts[p] = {x.device() + (8 + 8 * p) * 128, 32 * 128, 8, p == 1};
  session.time("rotary gathered", "16384 × (16 + 2 · 8) × 128, 32 pairs", 4 * values, 0,
               [&] { kernels::cuda::rotary(rotary, nullptr); });
  std::vector<int64_t> ids(at(rows));
  for (int64_t& id : ids) id = static_cast<int64_t>(session.random() % 50257);
  Buffer<float> sink(std::vector<float>(at(50257 * 1024)));
  Buffer<unsigned char> embedding_workspace(
      std::vector<unsigned char>(at(kernels::cuda::embedding_workspace_bytes(rows, 1024))));
  for (const bool frequent : {false, true}) {
    if (frequent) {
      for (size_t i = 0; i < ids.size(); i += 2) ids[i] = 1;
    }
    const SortedIds sorted(ids);
    const auto distinct = static_cast<double>(std::set<int64_t>(ids.begin(), ids.end()).size());
    session.time("embedding gradient",
                 std::string("16384 × 1024, 50257 ids") + (frequent ? ", half of the tokens one id" : ""),
                 static_cast<double>(rows * 1024 * 2) + distinct * 1024 * 8, 0, [&] {
                   kernels::cuda::embedding_gradient(
                       {rows, 1024, sorted.ids.device(), sorted.order.device(), d_y.device(), sink.device(),
                        embedding_workspace.device()},
                       nullptr);
                 });
  }
}

}  // namespace longhaul::gpu_check
