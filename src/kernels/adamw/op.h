// One step of AdamW (arXiv 1711.05101; docs/sources/optimizers.md §4) on runs of elements:
//   w ← w (1 − lr λ);  m ← β1 m + (1 − β1) g;  v ← β2 v + (1 − β2) g²
//   w ← w − lr/(1 − β1^t) · m / (sqrt(v)/sqrt(1 − β2^t) + ε)
// Implementations: reference (fp64 inside), cpu (loops.h: one pass over memory), aten (any device) and cuda
// (cuda.h). The optimizer decides what a run is and how threads share the runs (optim/optimizers/adamw.h).
#pragma once

#include <cstdint>
#include <span>

#include "kernels/adamw/loops.h"
#include "tensor/tensor.h"

namespace longhaul::kernels {

// The reference: one step t (from 1) on one matrix of n elements, in plain loops. Real is float or double.
struct AdamwReferenceStep {
  double lr = 0, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0;
  double gradient_scale = 1;
  int64_t t = 1;
};
template <class Real>
void adamw_reference(std::span<Real> weight, std::span<Real> m, std::span<Real> v,
                     std::span<const Real> gradient, const AdamwReferenceStep& step);
extern template void adamw_reference(std::span<float>, std::span<float>, std::span<float>,
                                     std::span<const float>, const AdamwReferenceStep&);
extern template void adamw_reference(std::span<double>, std::span<double>, std::span<double>,
                                     std::span<const double>, const AdamwReferenceStep&);

// With LibTorch's operators. Flat tensors of the same length; `value`: the working copy, or the master
// itself. The gradient is only read.
void adamw_aten(const Tensor& master, const Tensor& m, const Tensor& v, const Tensor& gradient,
                const Tensor& value, const AdamwScalars& scalars);

}  // namespace longhaul::kernels
