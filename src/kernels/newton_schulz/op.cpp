#include "kernels/newton_schulz/op.h"

#include "kernels/matmul/matmul.h"
#include "kernels/newton_schulz/newton_schulz.h"

namespace longhaul::kernels {
namespace {

using Constants = NewtonSchulzConstants;

// x yᵀ, and x y.
Tensor times_transposed(const Tensor& x, const Tensor& y) {
  PackedWeight packed;
  const int64_t rows[] = {x.size(0)};
  if (!refuse_packed(x, y, &packed).empty()) return at::matmul(x, y.t());
  return packed_output(x, rows, y, {}, packed, 0);
}
Tensor times(const Tensor& x, const Tensor& y) {
  PackedWeight packed;
  const int64_t rows[] = {x.size(0)};
  if (!refuse_packed(x, y, &packed).empty()) return at::matmul(x, y);
  return packed_input_gradient(x, rows, y, packed, 0);
}

}  // namespace

Tensor newton_schulz(const Tensor& matrix, int64_t iterations) {
  const bool tall = matrix.size(0) > matrix.size(1);
  Tensor x = (tall ? matrix.t() : matrix).contiguous();
  x = x / at::linalg_vector_norm(x, 2, std::nullopt, false, at::kDouble)
              .clamp_min(Constants::least_norm)
              .to(x.scalar_type());
  for (int64_t i = 0; i < iterations; ++i) {
    const Tensor a = times_transposed(x, x);
    const Tensor b = times_transposed(a, a).mul_(Constants::c).add_(a, Constants::b);  // A is symmetric
    x = times(b, x).add_(x, Constants::a);
  }
  return tall ? x.t() : x;
}

std::vector<Tensor> newton_schulz(const std::vector<Tensor>& matrices, int64_t iterations,
                                  ScalarType products) {
  std::vector<Tensor> inputs, results;
  std::vector<NewtonSchulzMatrix> narrow;
  for (const Tensor& matrix : matrices) {
    if (products != at::kBFloat16 || matrix.scalar_type() != at::kFloat || !matrix.device().is_cpu()) {
      results.push_back(newton_schulz(matrix, iterations));
      continue;
    }
    inputs.push_back(matrix.contiguous());
    results.push_back(at::empty_like(inputs.back()));
    narrow.push_back({inputs.back().const_data_ptr<float>(), results.back().mutable_data_ptr<float>(),
                      matrix.size(0), matrix.size(1)});
  }
  newton_schulz_bf16(narrow, iterations);
  return results;
}

}  // namespace longhaul::kernels
