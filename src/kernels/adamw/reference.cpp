#include <cmath>

#include "kernels/adamw/op.h"

namespace longhaul::kernels {

// The equations of adamw.h in their order, in fp64; only what is kept is rounded to Real.
template <class Real>
void adamw_reference(std::span<Real> weight, std::span<Real> m, std::span<Real> v,
                     std::span<const Real> gradient, const AdamwReferenceStep& step) {
  const double t = static_cast<double>(step.t);
  for (size_t i = 0; i < weight.size(); ++i) {
    const double g = static_cast<double>(gradient[i]) * step.gradient_scale;
    double w = static_cast<double>(weight[i]);
    w = w * (1 - step.lr * step.weight_decay);
    const double first = step.beta1 * static_cast<double>(m[i]) + (1 - step.beta1) * g;
    const double second = step.beta2 * static_cast<double>(v[i]) + (1 - step.beta2) * g * g;
    const double corrected_first = first / (1 - std::pow(step.beta1, t));
    const double corrected_second = second / (1 - std::pow(step.beta2, t));
    w = w - step.lr * corrected_first / (std::sqrt(corrected_second) + step.eps);
    m[i] = static_cast<Real>(first);
    v[i] = static_cast<Real>(second);
    weight[i] = static_cast<Real>(w);
  }
}

template void adamw_reference(std::span<float>, std::span<float>, std::span<float>, std::span<const float>,
                              const AdamwReferenceStep&);
template void adamw_reference(std::span<double>, std::span<double>, std::span<double>,
                              std::span<const double>, const AdamwReferenceStep&);

}  // namespace longhaul::kernels
