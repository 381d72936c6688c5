#include "kernels/updates/loops.h"

#include <cmath>

#include "kernels/vector/bf16.h"

namespace longhaul::kernels {
namespace {

// Inlined into one function per instruction set, whose instructions they then use.
#define LONGHAUL_INLINE_UPDATE inline __attribute__((always_inline))

// update(i, gradient, weight) for every element, then the working copy and the zero, which a run has or not.
template <class Real, class Update>
LONGHAUL_INLINE_UPDATE void for_run(const UpdateRun<Real>& run, bool zero_gradient, const Update& update) {
  Real* __restrict master = run.master, * __restrict gradient = run.gradient;
  uint16_t* __restrict value = run.value;
  const int64_t n = run.count;
  if (value != nullptr && zero_gradient) {
    for (int64_t i = 0; i < n; ++i) {
      master[i] = update(i, gradient[i], master[i]);
      value[i] = bf16_bits(static_cast<float>(master[i]));
      gradient[i] = 0;
    }
  } else if (zero_gradient) {
    for (int64_t i = 0; i < n; ++i) {
      master[i] = update(i, gradient[i], master[i]);
      gradient[i] = 0;
    }
  } else {
    for (int64_t i = 0; i < n; ++i) master[i] = update(i, gradient[i], master[i]);
    for (int64_t i = 0; value != nullptr && i < n; ++i) value[i] = bf16_bits(static_cast<float>(master[i]));
  }
}

template <class Real>
LONGHAUL_INLINE_UPDATE void lion_loop(const UpdateRun<Real>& run, const LionScalars& scalars) {
  const Real scale = static_cast<Real>(scalars.gradient_scale), kept = static_cast<Real>(scalars.kept_weight);
  const Real lr = static_cast<Real>(scalars.lr), fade = static_cast<Real>(scalars.fade);
  const Real beta1 = static_cast<Real>(scalars.beta1), rest1 = static_cast<Real>(1 - scalars.beta1);
  const Real beta2 = static_cast<Real>(scalars.beta2), rest2 = static_cast<Real>(1 - scalars.beta2);
  Real* __restrict momentum = run.first;
  for_run(run, scalars.zero_gradient, [&](int64_t i, Real gradient, Real weight) {
    const Real g = gradient * scale, c = beta1 * momentum[i] + rest1 * g, size = std::abs(c);
    const Real divisor = size > fade ? size : fade;
    momentum[i] = beta2 * momentum[i] + rest2 * g;
    return kept * weight - lr * (divisor > 0 ? c / divisor : c);  // c: zero, or not a number
  });
}

template <class Real>
LONGHAUL_INLINE_UPDATE void sgd_loop(const UpdateRun<Real>& run, const SgdScalars& scalars) {
  const Real scale = static_cast<Real>(scalars.gradient_scale), kept = static_cast<Real>(scalars.kept_weight);
  const Real lr = static_cast<Real>(scalars.lr), decay = static_cast<Real>(scalars.momentum);
  Real* __restrict momentum = run.first;
  if (momentum == nullptr) {
    for_run(run, scalars.zero_gradient, [&](int64_t, Real gradient, Real weight) { return kept * weight - lr * (gradient * scale); });
    return;
  }
  const Real own = scalars.nesterov ? 1 : 0, followed = scalars.nesterov ? decay : 1;
  for_run(run, scalars.zero_gradient, [&](int64_t i, Real gradient, Real weight) {
    const Real g = gradient * scale, m = decay * momentum[i] + g;
    momentum[i] = m;
    return kept * weight - lr * (own * g + followed * m);
  });
}

template <class Real>
struct LambNumbers {
  explicit LambNumbers(const LambScalars& scalars)
      : eps(static_cast<Real>(scalars.eps)),
        decay(static_cast<Real>(scalars.decay)),
        correction(static_cast<Real>(scalars.correction)),
        root_correction(static_cast<Real>(scalars.root_correction)) {}
  LONGHAUL_INLINE_UPDATE Real update(Real m, Real v, Real w) const {
    return m * correction / (std::sqrt(v) * root_correction + eps) + decay * w;
  }
  Real eps, decay, correction, root_correction;
};

template <class Real>
LONGHAUL_INLINE_UPDATE LambSums lamb_moments_loop(const UpdateRun<Real>& run, const LambScalars& scalars) {
  constexpr int64_t kLanes = 16;
  const Real scale = static_cast<Real>(scalars.gradient_scale), l2 = static_cast<Real>(scalars.l2);
  const Real beta1 = static_cast<Real>(scalars.beta1), rest1 = static_cast<Real>(1 - scalars.beta1);
  const Real beta2 = static_cast<Real>(scalars.beta2), rest2 = static_cast<Real>(1 - scalars.beta2);
  const LambNumbers<Real> numbers(scalars);
  const Real* __restrict master = run.master, * __restrict gradient = run.gradient;
  Real* __restrict first = run.first, * __restrict second = run.second;
  double weights[kLanes] = {}, updates[kLanes] = {};
  const auto at = [&](int64_t i, int64_t lane) __attribute__((always_inline)) {
    const Real w = master[i], g = gradient[i] * scale + l2 * w;
    const Real m = beta1 * first[i] + rest1 * g, v = beta2 * second[i] + rest2 * (g * g);
    first[i] = m;
    second[i] = v;
    const double wide = w, update = numbers.update(m, v, w);
    weights[lane] += wide * wide;
    updates[lane] += update * update;
  };
  int64_t i = 0;
  for (; i + kLanes <= run.count; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) at(i + lane, lane);
  }
  for (int64_t lane = 0; i + lane < run.count; ++lane) at(i + lane, lane);
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t lane = 0; lane < half; ++lane) weights[lane] += weights[lane + half], updates[lane] += updates[lane + half];
  }
  return {weights[0], updates[0]};
}

template <class Real>
LONGHAUL_INLINE_UPDATE void lamb_update_loop(const UpdateRun<Real>& run, const LambScalars& scalars) {
  const Real step = static_cast<Real>(scalars.step);
  const LambNumbers<Real> numbers(scalars);
  const Real* __restrict first = run.first, * __restrict second = run.second;
  for_run(run, scalars.zero_gradient,
          [&](int64_t i, Real, Real weight) { return weight - step * numbers.update(first[i], second[i], weight); });
}

// One struct of functions per instruction set and precision.
#define LONGHAUL_UPDATE_LOOPS_OF(SET, REAL, TARGET)                                                                    \
  TARGET void lion_##REAL##_##SET(const UpdateRun<REAL>& run, const LionScalars& scalars) { lion_loop(run, scalars); } \
  TARGET void sgd_##REAL##_##SET(const UpdateRun<REAL>& run, const SgdScalars& scalars) { sgd_loop(run, scalars); }    \
  TARGET LambSums lamb_moments_##REAL##_##SET(const UpdateRun<REAL>& run, const LambScalars& scalars) {                \
    return lamb_moments_loop(run, scalars);                                                                            \
  }                                                                                                                    \
  TARGET void lamb_update_##REAL##_##SET(const UpdateRun<REAL>& run, const LambScalars& scalars) { lamb_update_loop(run, scalars); }
#define LONGHAUL_UPDATE_LOOPS(SET, TARGET)                                                                                      \
  LONGHAUL_UPDATE_LOOPS_OF(SET, float, TARGET)                                                                                  \
  LONGHAUL_UPDATE_LOOPS_OF(SET, double, TARGET)                                                                                 \
  constexpr UpdateLoops k_updates_##SET{#SET,                                                                                   \
                                        {lion_float_##SET, sgd_float_##SET, lamb_moments_float_##SET, lamb_update_float_##SET}, \
                                        {lion_double_##SET, sgd_double_##SET, lamb_moments_double_##SET, lamb_update_double_##SET}};

LONGHAUL_UPDATE_LOOPS(baseline, )
#ifdef __x86_64__
LONGHAUL_UPDATE_LOOPS(avx2, __attribute__((target("avx2"))))
LONGHAUL_UPDATE_LOOPS(avx512, __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))))
#endif

}  // namespace

const std::vector<UpdateLoops>& usable_update_loops() {
  static const std::vector<UpdateLoops> loops = [] {
    std::vector<UpdateLoops> usable;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl")) {
      usable.push_back(k_updates_avx512);
    }
    if (__builtin_cpu_supports("avx2")) usable.push_back(k_updates_avx2);
#endif
    usable.push_back(k_updates_baseline);
    return usable;
  }();
  return loops;
}

}  // namespace longhaul::kernels
