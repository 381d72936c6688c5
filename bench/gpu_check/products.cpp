// Checks and timings of the matrix product in all its forms and of experts, against loops in fp64.
#include <algorithm>
#include <cmath>

#include "gpu_check/session.h"
#include "kernels/experts/cuda.h"
#include "kernels/matmul/cuda.h"

namespace longhaul::gpu_check {
namespace {

using kernels::cuda::Matmul;

size_t at(int64_t i) { return static_cast<size_t>(i); }

double element(const std::vector<double>& x, int64_t row, int64_t col, int64_t rows, int64_t cols,
               bool transposed) {
  return transposed ? x[at(col * rows + row)] : x[at(row * cols + col)];
}

void check_matmul(Session& session, int64_t m, int64_t n, int64_t k, bool a_transposed, bool b_transposed,
                  bool fp32) {
  Buffer<Bf16> a(random_bf16(session, m * k)), b(random_bf16(session, k * n));
  auto c = Buffer<Bf16>::output(m * n);
  Buffer<float> wide(random_fp32(session, m * n));
  const std::vector<double> left = widened(a.host), right = widened(b.host);
  std::vector<double> want = fp32 ? widened(wide.host) : std::vector<double>(at(m * n), 0);
  for (int64_t i = 0; i < m * n; ++i) {
    for (int64_t j = 0; j < k; ++j)
      want[at(i)] +=
          element(left, i / n, j, m, k, a_transposed) * element(right, j, i % n, k, n, b_transposed);
  }
  Matmul p;
  p.m = m, p.n = n, p.k = k;
  p.a = a.device(), p.a_stride = a_transposed ? m : k, p.a_transposed = a_transposed;
  p.b = b.device(), p.b_stride = b_transposed ? k : n, p.b_transposed = b_transposed;
  p.c = c.device(), p.c_stride = n;
  if (fp32) p.c_fp32 = wide.device(), p.accumulate = true;
  kernels::cuda::matmul(p, nullptr);
  kernels::cuda::runtime::synchronize();
  const std::string name = std::to_string(m) + " × " + std::to_string(n) + " × " + std::to_string(k) +
                           (a_transposed ? " Aᵀ" : " A") + (b_transposed ? "Bᵀ" : "B");
  if (fp32) {
    session.compare("matmul", name, "c += (fp32)", wide, want, kFp32);
  } else {
    session.compare("matmul", name, "c", c, want, kBf16);
  }
}

struct Assignment {
  std::vector<int32_t> choice, source, place;
  std::vector<int64_t> offsets;
  std::vector<double> weight;
};

// By sorting, with ties to the lower index.
Assignment reference_assignment(const std::vector<float>& logits, int64_t tokens, int experts, int choices) {
  Assignment out{std::vector<int32_t>(at(tokens * choices)),
                 {},
                 std::vector<int32_t>(at(tokens * choices)),
                 std::vector<int64_t>(at(experts + 1), 0),
                 std::vector<double>(at(tokens * choices))};
  for (int64_t t = 0; t < tokens; ++t) {
    std::vector<int32_t> order(at(experts));
    for (int e = 0; e < experts; ++e) order[at(e)] = e;
    const float* row = logits.data() + t * experts;
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return row[a] > row[b]; });
    double sum = 0;
    for (int k = 0; k < choices; ++k) sum += std::exp(static_cast<double>(row[order[at(k)]]));
    for (int k = 0; k < choices; ++k) {
      out.choice[at(t * choices + k)] = order[at(k)];
      out.weight[at(t * choices + k)] = std::exp(static_cast<double>(row[order[at(k)]])) / sum;
    }
  }
  for (int e = 0; e < experts; ++e) {
    for (int64_t i = 0; i < tokens * choices; ++i) {
      if (out.choice[at(i)] != e) continue;
      out.place[at(i)] = static_cast<int32_t>(out.source.size());
      out.source.push_back(static_cast<int32_t>(i / choices));
    }
    out.offsets[at(e + 1)] = static_cast<int64_t>(out.source.size());
  }
  return out;
}

template <class T>
std::vector<T> downloaded(Buffer<T>& buffer) {
  buffer.download();
  return buffer.host;
}

// One layer's way there and back: route, assign, permute, grouped product, combine, and the gradients.
void check_experts(Session& session, int64_t tokens, int experts, int choices, int64_t hidden, int64_t width,
                   bool one_sided) {
  const std::string op = "experts", name = std::to_string(tokens) + " tokens, " + std::to_string(choices) +
                                           " of " + std::to_string(experts) +
                                           (one_sided ? ", most experts idle" : "");
  Buffer<float> logits(random_fp32(session, tokens * experts));
  for (int64_t i = 0; one_sided && i < logits.size(); ++i)
    logits.host[at(i)] = i % experts < choices ? 5.f : 0.f;  // ties, and experts without tokens
  logits.upload();
  const int64_t rows = tokens * choices;
  auto choice = Buffer<int32_t>::output(rows), source = Buffer<int32_t>::output(rows),
       place = Buffer<int32_t>::output(rows);
  auto weight = Buffer<float>::output(rows), d_logits = Buffer<float>::output(tokens * experts),
       d_weight_out = Buffer<float>::output(rows);
  auto offsets = Buffer<int64_t>::output(experts + 1);
  const Assignment want = reference_assignment(logits.host, tokens, experts, choices);
  kernels::cuda::route_forward(logits.device(), choice.device(), weight.device(), tokens, experts, choices,
                               nullptr);
  kernels::cuda::assign_experts(choice.device(), offsets.device(), source.device(), place.device(), tokens,
                                experts, choices, nullptr);
  kernels::cuda::runtime::synchronize();
  session.expect(op, name, "choice", downloaded(choice) == want.choice && choice.guards_hold());
  session.compare(op, name, "weight", weight, want.weight, kFp32);
  session.expect(op, name, "offsets", downloaded(offsets) == want.offsets && offsets.guards_hold());
  session.expect(op, name, "source", downloaded(source) == want.source && source.guards_hold());
  session.expect(op, name, "place", downloaded(place) == want.place && place.guards_hold());

  Buffer<Bf16> x(random_bf16(session, tokens * hidden)), y(random_bf16(session, rows * hidden)),
      d_out(random_bf16(session, tokens * hidden)), w(random_bf16(session, experts * hidden * width)),
      d_rows(random_bf16(session, rows * width));
  auto permuted = Buffer<Bf16>::output(rows * hidden), out = Buffer<Bf16>::output(tokens * hidden),
       d_y = Buffer<Bf16>::output(rows * hidden), back = Buffer<Bf16>::output(tokens * hidden),
       product = Buffer<Bf16>::output(rows * width);
  Buffer<float> d_w(random_fp32(session, experts * hidden * width));
  kernels::cuda::permute_forward(x.device(), source.device(), permuted.device(), rows, hidden, nullptr);
  kernels::cuda::combine_forward(y.device(), weight.device(), place.device(), out.device(), tokens, choices,
                                 hidden, nullptr);
  kernels::cuda::combine_backward(y.device(), weight.device(), place.device(), d_out.device(), d_y.device(),
                                  d_weight_out.device(), tokens, choices, hidden, nullptr);
  kernels::cuda::combine_forward(y.device(), nullptr, place.device(), back.device(), tokens, choices, hidden,
                                 nullptr);
  kernels::cuda::route_backward(choice.device(), weight.device(), d_weight_out.device(), d_logits.device(),
                                tokens, experts, choices, nullptr);
  Matmul forward;  // rows [R, hidden] · W_eᵀ, W_e [width, hidden]
  forward.m = rows, forward.n = width, forward.k = hidden;
  forward.a = permuted.device(), forward.a_stride = hidden;
  forward.b = w.device(), forward.b_stride = hidden, forward.b_transposed = true,
  forward.b_group = width * hidden;
  forward.c = product.device(), forward.c_stride = width;
  forward.grouping = Matmul::Grouping::kRows, forward.groups = experts, forward.offsets = offsets.device();
  kernels::cuda::matmul(forward, nullptr);
  Matmul gradient;  // dW_e += d_rowsᵀ · rows
  gradient.m = width, gradient.n = hidden, gradient.k = rows;
  gradient.a = d_rows.device(), gradient.a_stride = width, gradient.a_transposed = true;
  gradient.b = permuted.device(), gradient.b_stride = hidden;
  gradient.c_fp32 = d_w.device(), gradient.c_stride = hidden, gradient.c_group = width * hidden,
  gradient.accumulate = true;
  gradient.grouping = Matmul::Grouping::kDepth, gradient.groups = experts,
  gradient.offsets = offsets.device();
  std::vector<double> want_d_w = widened(d_w.host);
  kernels::cuda::matmul(gradient, nullptr);
  kernels::cuda::runtime::synchronize();

  const std::vector<double> in = widened(x.host), rows_in = widened(y.host), g = widened(d_out.host),
                            weights = widened(w.host), d_r = widened(d_rows.host);
  std::vector<double> want_permuted(at(rows * hidden)), want_out(at(tokens * hidden), 0),
      want_back(at(tokens * hidden), 0), want_d_y(at(rows * hidden)), want_d_weight(at(rows), 0),
      want_product(at(rows * width), 0), want_d_logits(at(tokens * experts), 0);
  int64_t expert = 0;
  for (int64_t r = 0; r < rows; ++r) {
    while (want.offsets[at(expert + 1)] <= r) ++expert;
    for (int64_t c = 0; c < hidden; ++c) {
      const double value = want_permuted[at(r * hidden + c)] = in[at(want.source[at(r)] * hidden + c)];
      for (int64_t j = 0; j < width; ++j) {
        want_product[at(r * width + j)] += value * weights[at((expert * width + j) * hidden + c)];
        want_d_w[at((expert * width + j) * hidden + c)] += d_r[at(r * width + j)] * value;
      }
    }
  }
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t c = 0; c < hidden; ++c) {
      const size_t row = at(want.place[at(i)] * hidden + c), token = at(i / choices * hidden + c);
      want_out[token] += want.weight[at(i)] * rows_in[row];
      want_back[token] += rows_in[row];
      want_d_y[row] = want.weight[at(i)] * g[token];
      want_d_weight[at(i)] += g[token] * rows_in[row];
    }
  }
  for (int64_t i = 0; i < rows; ++i) {
    double mean = 0;
    for (int64_t k = i / choices * choices; k < (i / choices + 1) * choices; ++k)
      mean += want.weight[at(k)] * want_d_weight[at(k)];
    want_d_logits[at(i / choices * experts + want.choice[at(i)])] =
        want.weight[at(i)] * (want_d_weight[at(i)] - mean);
  }
  session.compare(op, name, "permuted", permuted, want_permuted, kExact);
  session.compare(op, name, "combined", out, want_out, kBf16);
  session.compare(op, name, "permute's gradient", back, want_back, kBf16);
  session.compare(op, name, "d_y", d_y, want_d_y, kBf16);
  session.compare(op, name, "d_weight", d_weight_out, want_d_weight, kFp32);
  session.compare(op, name, "d_logits", d_logits, want_d_logits, {1e-4, 1e-4});  // a difference of products
  session.compare(op, name, "grouped product", product, want_product, kBf16);
  session.compare(op, name, "grouped weight gradient", d_w, want_d_w, kFp32);
}

}  // namespace

void check_products(Session& session) {
  for (const bool a : {false, true}) {
    for (const bool b : {false, true}) {
      check_matmul(session, 129, 136, 72, a, b, false);
      check_matmul(session, 5, 3, 7, a, b, true);
      check_matmul(session, 136, 40, 200, a, b, true);
    }
  }
}

void check_experts(Session& session) {
  check_experts(session, 50, 5, 2, 40, 24, false);
  check_experts(session, 300, 33, 4, 16, 8, false);
  check_experts(session, 20, 8, 1, 13, 5, true);
  check_experts(session, 140, 6, 3, 8, 136, true);
}

void time_products(Session& session) {
  const int64_t n = 8192;
  Buffer<Bf16> a(random_bf16(session, n * n, 0.1)), b(random_bf16(session, n * n, 0.1));
  auto c = Buffer<Bf16>::output(n * n);
  Matmul p;
  p.m = p.n = p.k = p.a_stride = p.b_stride = p.c_stride = n;
  p.a = a.device(), p.b = b.device(), p.c = c.device(), p.b_transposed = true;
  const double size = static_cast<double>(n);
  session.time("matmul A Bᵀ", "8192³", 6 * size * size, 2 * size * size * size,
               [&] { kernels::cuda::matmul(p, nullptr); });
  p.b_transposed = false;
  session.time("matmul A B", "8192³", 6 * size * size, 2 * size * size * size,
               [&] { kernels::cuda::matmul(p, nullptr); });
  p.a_transposed = true;
  session.time("matmul Aᵀ B", "8192³", 6 * size * size, 2 * size * size * size,
               [&] { kernels::cuda::matmul(p, nullptr); });
}

void time_experts(Session& session) {
  const int64_t tokens = 16384, hidden = 2048, rows = tokens * 2;
  const int experts = 32, choices = 2;
  Buffer<float> logits(random_fp32(session, tokens * experts));
  auto choice = Buffer<int32_t>::output(rows), source = Buffer<int32_t>::output(rows),
       place = Buffer<int32_t>::output(rows);
  auto weight = Buffer<float>::output(rows), d_weight = Buffer<float>::output(rows);
  auto offsets = Buffer<int64_t>::output(experts + 1);
  Buffer<Bf16> x(random_bf16(session, tokens * hidden));
  auto permuted = Buffer<Bf16>::output(rows * hidden), out = Buffer<Bf16>::output(tokens * hidden),
       d_y = Buffer<Bf16>::output(rows * hidden);
  const std::string shape = "16384 tokens × 2048, 2 of 32";
  const double values = static_cast<double>(rows * hidden),
               tokens_values = static_cast<double>(tokens * hidden);
  session.time("experts route and assign", shape, static_cast<double>(tokens * experts * 4), 0, [&] {
    kernels::cuda::route_forward(logits.device(), choice.device(), weight.device(), tokens, experts, choices,
                                 nullptr);
    kernels::cuda::assign_experts(choice.device(), offsets.device(), source.device(), place.device(), tokens,
                                  experts, choices, nullptr);
  });
  session.time("experts permute", shape, 4 * values, 0, [&] {
    kernels::cuda::permute_forward(x.device(), source.device(), permuted.device(), rows, hidden, nullptr);
  });
  session.time("experts combine", shape, 2 * values + 2 * tokens_values, 0, [&] {
    kernels::cuda::combine_forward(permuted.device(), weight.device(), place.device(), out.device(), tokens,
                                   choices, hidden, nullptr);
  });
  session.time("experts combine backward", shape, 6 * values, 0, [&] {
    kernels::cuda::combine_backward(permuted.device(), weight.device(), place.device(), x.device(),
                                    d_y.device(), d_weight.device(), tokens, choices, hidden, nullptr);
  });
}

}  // namespace longhaul::gpu_check
