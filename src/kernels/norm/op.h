// The norms of a model, over the last axis of [tokens, channels], fused with the operations next to them:
// one pass over memory forward and one backward:
//
//   rms_norm     y = n w,     n = x r,         r = 1/sqrt(mean(x²) + eps)
//                (docs/sources/minimax-01.md §2, §2.6), also y · sigmoid(gate)
//   layer_norm   y = n w + b, n = (x − mean) r, r = 1/sqrt(variance + eps)         (arXiv 1607.06450)
//   join_norm    z = α x + β branch, y = norm(z): the residual join before either of them
//
// Backward: dw = Σ_t dy n, db = Σ_t dy, dn = dy w, dz = r (dn − n mean(dn n) [− mean(dn)]); with a gate,
// dgate = dy n w σ (1 − σ), and dy σ replaces dy. z is first rounded to its dtype and then normed.
// Statistics, products and sums in fp32 (fp64 for fp64 inputs), with one rounding for each element stored.
// dw and db are summed over fixed blocks of rows (kernels/vector/row_blocks.h), so results do not depend on
// the number of threads.
#pragma once

#include "tensor/tensor.h"

namespace longhaul::kernels {

// x_tc and gate_tc [tokens, channels] of one dtype, weight_c and bias_c [channels] in fp32 (fp64 for fp64
// inputs). Results: dtype of x. gate_tc, bias_c: may be undefined.
Tensor rms_norm(const Tensor& x_tc, const Tensor& weight_c, double eps, const Tensor& gate_tc = {});
Tensor layer_norm(const Tensor& x_tc, const Tensor& weight_c, const Tensor& bias_c, double eps);

enum class NormKind { kRms, kLayer };
struct JoinedNorm {
  Tensor joined_tc, normed_tc;  // z and y; both may be used
};
JoinedNorm join_norm(NormKind kind, const Tensor& x_tc, const Tensor& branch_tc, double alpha, double beta,
                     const Tensor& weight_c, const Tensor& bias_c, double eps);

// The same with ATen operators under autograd: the references, which also run where the CPU's loops do not.
Tensor rms_norm_reference(const Tensor& x_tc, const Tensor& weight_c, double eps, const Tensor& gate_tc = {});
Tensor layer_norm_reference(const Tensor& x_tc, const Tensor& weight_c, const Tensor& bias_c, double eps);
JoinedNorm join_norm_reference(NormKind kind, const Tensor& x_tc, const Tensor& branch_tc, double alpha,
                               double beta, const Tensor& weight_c, const Tensor& bias_c, double eps);

}  // namespace longhaul::kernels
