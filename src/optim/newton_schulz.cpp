#include "optim/newton_schulz.h"

#include "kernels/matmul/matmul.h"

namespace longhaul::optim {
namespace {

constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315, kLeastNorm = 1e-7;

// x yᵀ, and x y.
Tensor times_transposed(const Tensor& x, const Tensor& y) {
  kernels::PackedWeight packed;
  const int64_t rows[] = {x.size(0)};
  if (!kernels::refuse_packed(x, y, &packed).empty()) return at::matmul(x, y.t());
  return kernels::packed_output(x, rows, y, {}, packed, 0);
}
Tensor times(const Tensor& x, const Tensor& y) {
  kernels::PackedWeight packed;
  const int64_t rows[] = {x.size(0)};
  if (!kernels::refuse_packed(x, y, &packed).empty()) return at::matmul(x, y);
  return kernels::packed_input_gradient(x, rows, y, packed, 0);
}

}  // namespace

Tensor newton_schulz(const Tensor& matrix, int64_t iterations) {
  const bool tall = matrix.size(0) > matrix.size(1);
  Tensor x = (tall ? matrix.t() : matrix).contiguous();
  x = x / at::linalg_vector_norm(x, 2, std::nullopt, false, at::kDouble).clamp_min(kLeastNorm).to(x.scalar_type());
  for (int64_t i = 0; i < iterations; ++i) {
    const Tensor a = times_transposed(x, x);
    const Tensor b = times_transposed(a, a).mul_(kC).add_(a, kB);  // A is symmetric
    x = times(b, x).add_(x, kA);
  }
  return tall ? x.t() : x;
}

}  // namespace longhaul::optim
