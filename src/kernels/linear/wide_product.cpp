#include "kernels/linear/wide_product.h"

#include "kernels/cuda/calls.h"

namespace longhaul::kernels {

bool has_wide_product(const Tensor& x) { return x.scalar_type() == at::kBFloat16 && on_gpu(x); }

void wide_product(Tensor out, const Tensor& a, const Tensor& b) { at::mm_out(out, a, b, at::kFloat); }

// LibTorch copies nothing where the sum and the result are one tensor.
void add_wide_product(Tensor sum, const Tensor& a, const Tensor& b) {
  at::addmm_out(sum, sum, a, b, at::kFloat, /*beta=*/1, /*alpha=*/1);
}

}  // namespace longhaul::kernels
