#include "kernels/linear/product_check.h"

#include <cmath>

namespace longhaul::kernels {
namespace {

constexpr int64_t kColumnsOfSum = 16, kRowsOfWeight = 512;

// Half of the distance of 1 to the next number: rounding moves a number y by that times |y| at most. (bf16
// has seven digits behind the point.)
double unit_of(ScalarType type) {
  return type == at::kBFloat16 ? 0x1p-8 : type == at::kDouble ? 0x1p-53 : 0x1p-24;
}

// [n, m] → [⌈n/16⌉, m]: sums over 16 rows each.
Tensor sums_of_rows(const Tensor& rows) {
  const int64_t n = rows.size(0), groups = (n + kColumnsOfSum - 1) / kColumnsOfSum;
  Tensor padded = rows;
  if (groups * kColumnsOfSum != n)
    padded = at::cat({rows, at::zeros({groups * kColumnsOfSum - n, rows.size(1)}, rows.options())});
  return padded.reshape({groups, kColumnsOfSum, rows.size(1)}).sum(1);
}

}  // namespace

ProductCheck check_product(const Tensor& x_ti, const Tensor& weight_oi, const Tensor& y_to) {
  const at::NoGradGuard no_gradients;
  const Tensor x = x_ti.to(at::kDouble);
  const double rounding = unit_of(y_to.scalar_type());
  const double adding = unit_of(y_to.scalar_type() == at::kDouble ? at::kDouble : at::kFloat) *
                        std::sqrt(static_cast<double>(x.size(1)));
  const Tensor squares_of_x = x.square().sum(1);
  ProductCheck check;
  for (int64_t from = 0; from < weight_oi.size(0); from += kRowsOfWeight) {
    const int64_t rows = std::min(kRowsOfWeight, weight_oi.size(0) - from);
    const Tensor weight = weight_oi.narrow(0, from, rows).to(at::kDouble),
                 y_ot = y_to.narrow(1, from, rows).to(at::kDouble).t();
    // [sums, tokens]
    const Tensor expected = at::matmul(sums_of_rows(weight), x.t()), found = sums_of_rows(y_ot);
    const Tensor squares_of_weight = sums_of_rows(weight.square()).sum(1, /*keepdim=*/true);
    const Tensor allowed = 6 * (rounding * sums_of_rows(y_ot.square()).sqrt() +
                                adding * (squares_of_weight * squares_of_x.unsqueeze(0)).sqrt());
    const Tensor shares = (expected - found).abs() / (allowed + 1e-300);
    const Tensor by_place = at::where(shares.isfinite(), shares, at::full_like(shares, INFINITY)).flatten();
    const int64_t at = by_place.argmax().item<int64_t>();
    const double share = by_place[at].item<double>();
    if (!(share > check.worst)) continue;
    check = {
        .worst = share, .row = at % shares.size(1), .column = from + at / shares.size(1) * kColumnsOfSum};
  }
  return check;
}

}  // namespace longhaul::kernels
