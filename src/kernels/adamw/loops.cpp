// Compiled once per instruction set by Highway's foreach_target.
#include "kernels/adamw/loops.h"

#include <algorithm>

#include "kernels/vector/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/adamw/loops.cpp"
#include <hwy/foreach_target.h>
#include "kernels/vector/pairs-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels::HWY_NAMESPACE {
namespace {

// docs/sources/optimizers.md §4:  w ← w (1 − lr λ);  m ← β1 m + (1 − β1) g;  v ← β2 v + (1 − β2) g²
//                    w ← w − lr/(1 − β1^t) · m / (sqrt(v)/sqrt(1 − β2^t) + ε)
template <class Real>
void adamw(Real* master, Real* m, Real* v, Real* grad, uint16_t* value, int64_t n,
           const AdamwScalars& scalars) {
  const hn::ScalableTag<Real> d;
  const auto all = [&](double x) LONGHAUL_VECTOR { return hn::Set(d, static_cast<Real>(x)); };
  const auto scale = all(scalars.gradient_scale), eps = all(scalars.eps), kept = all(scalars.kept_weight);
  const auto beta1 = all(scalars.beta1), rest1 = all(1 - scalars.beta1), beta2 = all(scalars.beta2),
             rest2 = all(1 - scalars.beta2);
  const auto step_size = all(scalars.step_size), correction = all(scalars.inverse_root_correction);
  const auto update = [&](auto at) LONGHAUL_VECTOR {
    const auto g = hn::Mul(load(d, grad, at), scale);
    const auto first = hn::Add(hn::Mul(beta1, load(d, m, at)), hn::Mul(rest1, g));
    const auto second = hn::Add(hn::Mul(beta2, load(d, v, at)), hn::Mul(rest2, hn::Mul(g, g)));
    const auto divisor = hn::Add(hn::Mul(hn::Sqrt(second), correction), eps);
    const auto weight =
        hn::Sub(hn::Mul(kept, load(d, master, at)), hn::Mul(step_size, hn::Div(first, divisor)));
    store(d, first, m, at);
    store(d, second, v, at);
    store(d, weight, master, at);
    if (scalars.zero_gradient) store(d, hn::Zero(d), grad, at);
    return weight;
  };
  walk_pairs(d, n, update, value, master, m, v, grad);
}

template <class Real>
double squares(const Real* x, int64_t n) {
  SquareSums sums;
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) sums.add(x + i);
  Real rest[16] = {};
  std::copy(x + i, x + n, rest);
  sums.add(rest);
  return sums.total();
}

const ElementLoops& loops() {
  static const ElementLoops functions{hwy::TargetName(HWY_TARGET), adamw<float>, adamw<double>,
                                      squares<float>, squares<double>};
  return functions;
}

}  // namespace
}  // namespace longhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longhaul::kernels {

const ElementLoops& element_loops() { return LONGHAUL_CHOOSE(loops)(); }

}  // namespace longhaul::kernels
#endif
