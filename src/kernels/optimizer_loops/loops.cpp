// Compiled once per instruction set by Highway's foreach_target.
#include "kernels/optimizer_loops/loops.h"

#include <algorithm>

#include "kernels/vector/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimizer_loops/loops.cpp"
#include <hwy/foreach_target.h>
#include "kernels/vector/pairs-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels::HWY_NAMESPACE {
namespace {

template <class Real>
using Tag = hn::ScalableTag<Real>;
template <class Real>
using Numbers = hn::Vec<Tag<Real>>;
template <class Real>
HWY_INLINE Numbers<Real> all(double x) {
  return hn::Set(Tag<Real>(), static_cast<Real>(x));
}

// update(at, gradient, weight) for every element, then the working copy and the zero, which a run has or not.
// `states`: those that update() reads.
template <class Real, class Update, class... States>
HWY_INLINE void for_run(const UpdateRun<Real>& run, bool zero_gradient, const Update& update,
                        const States*... states) {
  const Tag<Real> d;
  const auto all_of = [&](auto at) LONGHAUL_VECTOR {
    const auto weight = update(at, load(d, run.gradient, at), load(d, run.master, at));
    store(d, weight, run.master, at);
    if (zero_gradient) store(d, hn::Zero(d), run.gradient, at);
    return weight;
  };
  walk_pairs(d, run.count, all_of, run.value, run.master, run.gradient, states...);
}

template <class Real>
void lion(const UpdateRun<Real>& run, const LionScalars& scalars) {
  const Tag<Real> d;
  const auto scale = all<Real>(scalars.gradient_scale), kept = all<Real>(scalars.kept_weight);
  const auto lr = all<Real>(scalars.lr), fade = all<Real>(scalars.fade), zero = hn::Zero(d);
  const auto beta1 = all<Real>(scalars.beta1), rest1 = all<Real>(1 - scalars.beta1);
  const auto beta2 = all<Real>(scalars.beta2), rest2 = all<Real>(1 - scalars.beta2);
  for_run(
      run, scalars.zero_gradient,
      [&](auto at, auto gradient, auto weight) LONGHAUL_VECTOR {
        const auto g = hn::Mul(gradient, scale), momentum = load(d, run.first, at);
        const auto c = hn::Add(hn::Mul(beta1, momentum), hn::Mul(rest1, g)), size = hn::Abs(c);
        const auto divisor = hn::IfThenElse(hn::Gt(size, fade), size, fade);
        store(d, hn::Add(hn::Mul(beta2, momentum), hn::Mul(rest2, g)), run.first, at);
        // c: zero, or not a number
        const auto sign = hn::IfThenElse(hn::Gt(divisor, zero), hn::Div(c, divisor), c);
        return hn::Sub(hn::Mul(kept, weight), hn::Mul(lr, sign));
      },
      run.first);
}

template <class Real>
void sgd(const UpdateRun<Real>& run, const SgdScalars& scalars) {
  const Tag<Real> d;
  const auto scale = all<Real>(scalars.gradient_scale), kept = all<Real>(scalars.kept_weight);
  const auto lr = all<Real>(scalars.lr), decay = all<Real>(scalars.momentum);
  if (run.first == nullptr) {
    for_run(run, scalars.zero_gradient, [&](auto, auto gradient, auto weight) LONGHAUL_VECTOR {
      return hn::Sub(hn::Mul(kept, weight), hn::Mul(lr, hn::Mul(gradient, scale)));
    });
    return;
  }
  const auto own = all<Real>(scalars.nesterov ? 1 : 0), followed = scalars.nesterov ? decay : all<Real>(1);
  for_run(
      run, scalars.zero_gradient,
      [&](auto at, auto gradient, auto weight) LONGHAUL_VECTOR {
        const auto g = hn::Mul(gradient, scale), m = hn::Add(hn::Mul(decay, load(d, run.first, at)), g);
        store(d, m, run.first, at);
        return hn::Sub(hn::Mul(kept, weight), hn::Mul(lr, hn::Add(hn::Mul(own, g), hn::Mul(followed, m))));
      },
      run.first);
}

// u = m·correction / (√v·root_correction + ε) + decay·w
template <class Real>
HWY_INLINE Numbers<Real> lamb_direction(const LambScalars& scalars, Numbers<Real> m, Numbers<Real> v,
                                        Numbers<Real> w) {
  const auto divisor =
      hn::Add(hn::Mul(hn::Sqrt(v), all<Real>(scalars.root_correction)), all<Real>(scalars.eps));
  return hn::Add(hn::Div(hn::Mul(m, all<Real>(scalars.correction)), divisor),
                 hn::Mul(all<Real>(scalars.decay), w));
}

template <class Real>
LambSums lamb_moments(const UpdateRun<Real>& run, const LambScalars& scalars) {
  const Tag<Real> d;
  const auto scale = all<Real>(scalars.gradient_scale), l2 = all<Real>(scalars.l2);
  const auto beta1 = all<Real>(scalars.beta1), beta3 = all<Real>(scalars.beta3);
  const auto beta2 = all<Real>(scalars.beta2), rest2 = all<Real>(1 - scalars.beta2);
  SquareSums weights, updates;
  for (int64_t i = 0; i < run.count; i += 16) {
    Real w_of[16] = {}, u_of[16] = {};
    walk(d, std::min<int64_t>(16, run.count - i), [&](auto at) LONGHAUL_VECTOR {
      const auto w = load(d, run.master + i, at),
                 g = hn::Add(hn::Mul(load(d, run.gradient + i, at), scale), hn::Mul(l2, w));
      const auto m = hn::Add(hn::Mul(beta1, load(d, run.first + i, at)), hn::Mul(beta3, g));
      const auto v = hn::Add(hn::Mul(beta2, load(d, run.second + i, at)), hn::Mul(rest2, hn::Mul(g, g)));
      store(d, m, run.first + i, at);
      store(d, v, run.second + i, at);
      store(d, w, w_of, at);
      store(d, lamb_direction<Real>(scalars, m, v, w), u_of, at);
    });
    weights.add(w_of);
    updates.add(u_of);
  }
  return {weights.total(), updates.total()};
}

template <class Real>
void lamb_update(const UpdateRun<Real>& run, const LambScalars& scalars) {
  const Tag<Real> d;
  const auto step = all<Real>(scalars.step);
  for_run(
      run, scalars.zero_gradient,
      [&](auto at, auto, auto weight) LONGHAUL_VECTOR {
        const auto u = lamb_direction<Real>(scalars, load(d, run.first, at), load(d, run.second, at), weight);
        return hn::Sub(weight, hn::Mul(step, u));
      },
      run.first, run.second);
}

template <class Real>
const UpdateLoops<Real>& loops() {
  static constexpr UpdateLoops<Real> kFunctions{lion<Real>, sgd<Real>, lamb_moments<Real>, lamb_update<Real>};
  return kFunctions;
}

}  // namespace
}  // namespace longhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longhaul::kernels {

template <class Real>
const UpdateLoops<Real>& update_loops() {
  return LONGHAUL_CHOOSE(loops<Real>)();
}
template const UpdateLoops<float>& update_loops();
template const UpdateLoops<double>& update_loops();

}  // namespace longhaul::kernels
#endif
