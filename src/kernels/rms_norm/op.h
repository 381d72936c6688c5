// rms_norm: y = x · r · w with r = rsqrt(mean(x²) + eps) over the last axis (minimax-01.md §2, §2.6). Statistics and products in
// fp32 (fp64 for fp64 inputs) and one rounding at the end. Differentiable in x and w:
//
//   n = x·r,  dw = Σ_t dy·n,  dn = dy·w,  dx = r (dn − n · mean(dn·n))
//
// Deterministic: dw is summed over fixed blocks of rows, whatever the number of threads.
#pragma once

#include "tensor/tensor.h"

namespace longhaul::kernels {

// x_tc [tokens, channels]; weight_c [channels] in fp32 (fp64 for fp64 inputs). Result: dtype of x.
Tensor rms_norm(const Tensor& x_tc, const Tensor& weight_c, double eps);
Tensor rms_norm_reference(const Tensor& x_tc, const Tensor& weight_c, double eps);  // ATen operators under autograd

}  // namespace longhaul::kernels
