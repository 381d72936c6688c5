// Checks and timings of short_convolution against its equation in fp64, document by document.
#include <cmath>

#include "gpu_check/session.h"
#include "kernels/short_convolution/cuda.h"

namespace longhaul::gpu_check {
namespace {

struct Case {
  const char* name;
  std::vector<int64_t> offsets;
  int64_t channels;
  int taps;
  bool bias, initial, silu;
  int64_t apart = 0;  // elements between the rows of x beyond its channels
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"one document", {0, 70}, 40, 4, true, true, true},
      {"documents shorter than the taps, and empty ones",
       {0, 0, 1, 3, 3, 6, 29, 29},
       24,
       4,
       true,
       true,
       false},
      {"odd channels, rows apart", {0, 1, 3, 40}, 13, 4, false, false, true, 5},
      {"two taps", {0, 9, 10}, 16, 2, true, true, true},
      {"three taps without silu", {0, 5, 33}, 8, 3, false, true, false, 8},
      {"one tap", {0, 2, 40}, 12, 1, true, false, true},
      {"seven taps", {0, 3, 50}, 10, 7, true, true, true},
      {"sixteen taps, odd", {0, 30, 31, 45}, 7, 16, false, true, false},
      {"more tokens than runs", {0, 600, 601, 1100}, 8, 4, true, true, true},
      {"many channels", {0, 3}, 1040, 4, true, false, true},
  };
  return all;
}

size_t at(int64_t i) { return static_cast<size_t>(i); }

// The case in fp64. Position −(W − 1) … −1 of a document is its initial state.
struct Reference {
  const Case& which;
  std::vector<double> x, weight, bias, initial, d_y, d_final;
  std::vector<double> y, final_state, d_x, d_initial, d_weight, d_bias;

  int64_t history() const { return which.taps - 1; }
  int64_t begin(size_t n) const { return which.offsets[n]; }
  int64_t length(size_t n) const { return which.offsets[n + 1] - which.offsets[n]; }
  // The place of an input, and of its gradient; null before the document where it has no state.
  double* place(std::vector<double>& rows, std::vector<double>& states, size_t n, int64_t position,
                int64_t c) const {
    if (position >= 0) return &rows[at((begin(n) + position) * which.channels + c)];
    if (!which.initial) return nullptr;
    return &states[at((static_cast<int64_t>(n) * history() + history() + position) * which.channels + c)];
  }
  void run_channel(size_t n, int64_t c) {
    for (int64_t t = 0; t < length(n); ++t) {
      const size_t token = at((begin(n) + t) * which.channels + c);
      double z = which.bias ? bias[at(c)] : 0;
      for (int64_t j = 0; j < which.taps; ++j) {
        if (const double* in = place(x, initial, n, t - history() + j, c))
          z += weight[at(j * which.channels + c)] * *in;
      }
      const double s = 1 / (1 + std::exp(-z));
      y[token] = which.silu ? z * s : z;
      const double slope = d_y[token] * (which.silu ? s * (1 + z * (1 - s)) : 1);
      d_bias[at(c)] += slope;
      for (int64_t j = 0; j < which.taps; ++j) {
        const int64_t position = t - history() + j;
        const size_t tap = at(j * which.channels + c);
        if (const double* in = place(x, initial, n, position, c)) d_weight[tap] += slope * *in;
        if (double* d_in = place(d_x, d_initial, n, position, c)) *d_in += slope * weight[tap];
      }
    }
    for (int64_t i = 0; i < history(); ++i) {
      const int64_t position = length(n) - history() + i;
      const size_t row = at((static_cast<int64_t>(n) * history() + i) * which.channels + c);
      const double* in = place(x, initial, n, position, c);
      final_state[row] = in != nullptr ? *in : 0;
      if (double* d_in = place(d_x, d_initial, n, position, c)) *d_in += d_final[row];
    }
  }
};

void check_case(Session& session, const Case& which) {
  const int64_t tokens = which.offsets.back(), channels = which.channels, stride = channels + which.apart,
                documents = static_cast<int64_t>(which.offsets.size()) - 1,
                states = documents * (which.taps - 1) * channels;
  Buffer<Bf16> x(random_bf16(session, tokens * stride)), initial(random_bf16(session, states)),
      d_y(random_bf16(session, tokens * channels)), d_final(random_bf16(session, states));
  Buffer<float> weight(random_fp32(session, which.taps * channels)), bias(random_fp32(session, channels));
  Buffer<float> sums(random_fp32(session, (which.taps + (which.bias ? 1 : 0)) * channels));
  Buffer<int64_t> offsets(which.offsets);
  const std::vector<double> before = widened(sums.host), spread = widened(x.host);
  Reference want{which,
                 {},
                 widened(weight.host),
                 widened(bias.host),
                 widened(initial.host),
                 widened(d_y.host),
                 widened(d_final.host)};
  for (int64_t i = 0; i < tokens * channels; ++i)
    want.x.push_back(spread[at(i / channels * stride + i % channels)]);
  want.y = want.d_x = std::vector<double>(want.x.size(), 0);
  want.final_state = want.d_initial = std::vector<double>(at(states), 0);
  want.d_weight.assign(before.begin(), before.begin() + static_cast<std::ptrdiff_t>(want.weight.size()));
  want.d_bias.assign(before.begin() + static_cast<std::ptrdiff_t>(want.weight.size()), before.end());
  want.d_bias.resize(at(channels), 0);
  for (size_t n = 0; n < at(documents); ++n) {
    for (int64_t c = 0; c < channels; ++c) want.run_channel(n, c);
  }
  kernels::cuda::Convolution call{tokens,
                                  channels,
                                  documents,
                                  which.taps,
                                  which.silu,
                                  x.device(),
                                  stride,
                                  weight.device(),
                                  which.bias ? bias.device() : nullptr,
                                  which.initial ? initial.device() : nullptr,
                                  offsets.device()};
  auto y = Buffer<Bf16>::output(tokens * channels), final_state = Buffer<Bf16>::output(states),
       d_x = Buffer<Bf16>::output(tokens * channels);
  Buffer<Bf16> d_initial(d_final.host);  // what a document without tokens leaves there
  auto partial = Buffer<float>::output(kernels::cuda::convolution_workspace_bytes(call) / 4);
  kernels::cuda::convolution_forward(call, y.device(), final_state.device(), nullptr);
  kernels::cuda::convolution_backward(
      call,
      {d_y.device(), d_final.device(), d_x.device(), which.initial ? d_initial.device() : nullptr,
       sums.device(), partial.device()},
      nullptr);
  kernels::cuda::runtime::synchronize();
  const std::string op = "short_convolution";
  session.compare(op, which.name, "y", y, want.y, kBf16);
  session.compare(op, which.name, "final state", final_state, want.final_state, kExact);
  session.compare(op, which.name, "d_x", d_x, want.d_x, kBf16);
  if (which.initial) session.compare(op, which.name, "d_initial", d_initial, want.d_initial, kBf16);
  std::vector<double> want_sums = want.d_weight;
  if (which.bias) want_sums.insert(want_sums.end(), want.d_bias.begin(), want.d_bias.end());
  session.compare(op, which.name, "d_weight and d_bias", sums, want_sums, kFp32);
  session.expect(op, which.name, "workspace", partial.guards_hold(), "wrote outside the workspace");
}

}  // namespace

void check_short_convolution(Session& session) {
  for (const Case& which : cases()) check_case(session, which);
}

void time_short_convolution(Session& session) {
  const int64_t tokens = 32768, channels = 2048, count = tokens * channels;
  std::vector<int64_t> boundaries;
  for (int64_t t = 0; t <= tokens; t += 1024) boundaries.push_back(t);
  Buffer<Bf16> x(random_bf16(session, count)), d_y(x.host);
  Buffer<float> weight(random_fp32(session, 4 * channels)), bias(random_fp32(session, channels)),
      sums(std::vector<float>(at(5 * channels)));
  Buffer<int64_t> offsets(boundaries);
  const auto documents = static_cast<int64_t>(boundaries.size()) - 1;
  auto y = Buffer<Bf16>::output(count), final_state = Buffer<Bf16>::output(documents * 3 * channels);
  const kernels::cuda::Convolution call{tokens,        channels,   documents,       4,
                                        true,          x.device(), channels,        weight.device(),
                                        bias.device(), nullptr,    offsets.device()};
  auto partial = Buffer<float>::output(kernels::cuda::convolution_workspace_bytes(call) / 4);
  const std::string shape = "32768 × 2048, 4 taps, silu, documents of 1024";
  const double values = static_cast<double>(count);
  session.time("short_convolution forward", shape, 4 * values, 0,
               [&] { kernels::cuda::convolution_forward(call, y.device(), final_state.device(), nullptr); });
  session.time("short_convolution backward", shape, 6 * values, 0, [&] {
    kernels::cuda::convolution_backward(
        call, {d_y.device(), nullptr, y.device(), nullptr, sums.device(), partial.device()}, nullptr);
  });
}

}  // namespace longhaul::gpu_check
