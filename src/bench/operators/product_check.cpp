#include "bench/operators/product_check.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/threads/parallel.h"
#include "kernels/linear/op.h"

namespace longhaul::bench {
namespace {

using control::CheckFinding;
using control::CheckStatus;

// |sum| <= 8 · 8 · 1024 = 2^16
constexpr int64_t kProductRows = 1024, kProductColumns = 1024, kProductDepth = 1024;
constexpr double kProductBudget_s = 0.7;  // of each dtype
constexpr uint64_t kProductSeed = 20261123;

// Whole numbers from -8 to 8, which bf16 holds.
Tensor whole_numbers(int64_t rows, int64_t columns, uint64_t stream) {
  const Tensor numbers = at::empty({rows, columns}, at::kLong);
  auto* const to = numbers.mutable_data_ptr<int64_t>();
  parallel_for(0, rows * columns, 1 << 14, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      uint64_t x =
          (static_cast<uint64_t>(i) + stream * 0x632be59bd9b4e019u + kProductSeed) * 0x9e3779b97f4a7c15u;
      x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93u;
      to[i] = static_cast<int64_t>((x >> 40) % 17) - 8;
    }
  });
  return numbers;
}

// y = A x, or Aᵀ x, of integers.
std::vector<int64_t> times(const Tensor& a_mk, const std::vector<int64_t>& x, bool transposed) {
  const int64_t m = a_mk.size(0), k = a_mk.size(1);
  const auto* const a = a_mk.const_data_ptr<int64_t>();
  std::vector<int64_t> y(static_cast<size_t>(transposed ? k : m), 0);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < k; ++j) {
      const int64_t value = a[i * k + j];
      if (transposed)
        y[static_cast<size_t>(j)] += value * x[static_cast<size_t>(i)];
      else
        y[static_cast<size_t>(i)] += value * x[static_cast<size_t>(j)];
    }
  }
  return y;
}

std::string bits_of(const Tensor& tensor) {
  const Tensor held = tensor.cpu().contiguous();
  return fmt::format("{:016x}",
                     xxh3(std::span(static_cast<const std::byte*>(held.const_data_ptr()), held.nbytes())));
}

struct ProductRun {
  std::string dtype;
  int64_t runs = 0, wrong_runs = 0;
  std::vector<int64_t> rows;  // wrong ones, of the first wrong run
  double flops_per_second = 0;
};

// The same product again and again: the first is looked at element by element, those behind it have its bits
// or are looked at too.
ProductRun multiply(const Tensor& a_mk, const Tensor& b_nk, const std::string& dtype, at::Device device,
                    bool plant, const std::function<std::vector<int64_t>(const Tensor&)>& wrong) {
  const c10::NoGradGuard no_grad;
  const auto options = at::TensorOptions().dtype(scalar_type_named(dtype)).device(device);
  const Tensor a = a_mk.to(options), b = b_nk.to(options);
  ProductRun result{.dtype = dtype};
  const Stopwatch all;
  Tensor right;
  double quickest_s = 1e9;
  while (result.runs < 4 || all.seconds() < kProductBudget_s) {
    synchronize(device);
    const Stopwatch watch;
    Tensor c_mn = kernels::linear(a, b, {}, {});
    synchronize(device);
    quickest_s = std::min(quickest_s, watch.seconds());
    if (plant && result.runs == 2) c_mn[kProductRows / 3][7] += 1;
    ++result.runs;
    if (right.defined() && at::equal(right, c_mn)) continue;
    const std::vector<int64_t> rows = wrong(c_mn);
    if (rows.empty() && !right.defined()) right = c_mn;
    if (rows.empty()) continue;
    ++result.wrong_runs;
    if (result.rows.empty()) result.rows = rows;
  }
  result.flops_per_second = 2.0 * kProductRows * kProductColumns * kProductDepth / quickest_s;
  return result;
}

void note(const ProductRun& run, const std::string& where, CheckFinding& finding) {
  finding.found += fmt::format("{}{} {:.1f} GFLOP/s", finding.found.empty() ? "" : ", ", where + run.dtype,
                               run.flops_per_second / 1e9);
  finding.values[where + run.dtype + "_flops_per_second"] = run.flops_per_second;
  if (run.wrong_runs == 0) return;
  finding.found +=
      fmt::format(" ({} of {} products wrong, row {} first)", run.wrong_runs, run.runs, run.rows.front());
  finding.make(CheckStatus::kFailed, "every product right, to the bit",
               "this machine miscalculates: take it out of every run");
}

void check_device(at::Device device, bool plant, CheckFinding& finding) {
  const Tensor a_mk = whole_numbers(kProductRows, kProductDepth, 1),
               b_nk = whole_numbers(kProductColumns, kProductDepth, 2);
  const std::string where = device.is_cuda() ? name_of(device) + " " : "";
  const auto by_integers = [&](const Tensor& c_mn) { return wrong_rows(a_mk, b_nk, c_mn); };
  note(multiply(a_mk, b_nk, "fp64", device, false, by_integers), where, finding);
  note(multiply(a_mk, b_nk, "fp32", device, plant, by_integers), where, finding);
  // Rounded once from the exact sums, which are made, and looked at, once more.
  const c10::NoGradGuard no_grad;
  const Tensor exact = kernels::linear(a_mk.to(at::kDouble), b_nk.to(at::kDouble), {}, {});
  const auto by_rounding = [&](const Tensor& c_mn) {
    std::vector<int64_t> rows = by_integers(exact);
    const Tensor differs = c_mn.cpu().ne(exact.to(at::kBFloat16)).any(1);  // true for NaN
    for (int64_t i = 0; rows.empty() && i < kProductRows; ++i) {
      if (differs[i].item<bool>()) rows.push_back(i);
    }
    return rows;
  };
  note(multiply(a_mk, b_nk, "bf16", device, false, by_rounding), where, finding);
}

// Products of real numbers: the order of summation shows in their bits, so they are those of a model and a
// LibTorch.
void note_real_products(CheckFinding& finding) {
  const c10::NoGradGuard no_grad;
  const Tensor a_mk = whole_numbers(256, 700, 3).to(at::kFloat) / 7,
               b_nk = whole_numbers(192, 700, 4).to(at::kFloat) / 11;
  finding.fingerprints.push_back({"fp32 product", bits_of(kernels::linear(a_mk, b_nk, {}, {})), true});
  finding.fingerprints.push_back(
      {"bf16 product", bits_of(kernels::linear(a_mk.to(at::kBFloat16), b_nk.to(at::kBFloat16), {}, {})),
       true});
}

}  // namespace

std::vector<int64_t> wrong_rows(const Tensor& a_mk, const Tensor& b_nk, const Tensor& c_mn) {
  const Tensor a = a_mk.cpu().to(at::kLong).contiguous(), b = b_nk.cpu().to(at::kLong).contiguous();
  const Tensor c_real = c_mn.cpu().to(at::kDouble).contiguous();
  const int64_t m = c_real.size(0), n = c_real.size(1);
  std::vector<int64_t> x(static_cast<size_t>(n));
  for (size_t j = 0; j < x.size(); ++j) x[j] = 1 + static_cast<int64_t>((j * 2654435761u >> 7) % 7);
  const std::vector<int64_t> expected = times(a, times(b, x, true), false);
  const auto* const c = c_real.const_data_ptr<double>();
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < m; ++i) {
    int64_t sum = 0;
    bool whole = true;
    for (int64_t j = 0; j < n; ++j) {
      const double value = c[i * n + j];
      whole = whole && std::abs(value) < 1e9 && value == std::floor(value);  // false for NaN
      if (whole) sum += static_cast<int64_t>(value) * x[static_cast<size_t>(j)];
    }
    if (!whole || sum != expected[static_cast<size_t>(i)]) rows.push_back(i);
  }
  return rows;
}

CheckFinding product_check(const control::CheckContext& context) {
  CheckFinding finding{.name = "product"};
  check_device(at::kCPU, context.plant, finding);
  for (int64_t i = 0; i < gpu_count(); ++i)
    check_device({at::kCUDA, static_cast<c10::DeviceIndex>(i)}, false, finding);
  note_real_products(finding);
  return finding;
}

}  // namespace longhaul::bench
