#include "kernels/adamw/loops.h"

#include <cmath>

#include "kernels/vector/bf16.h"

namespace longhaul::kernels {
namespace {

// Inlined into one function per instruction set, whose instructions they then use.
#define LONGHAUL_INLINE inline __attribute__((always_inline))

// optimizers.md §4:  w ← w (1 − lr λ);  m ← β1 m + (1 − β1) g;  v ← β2 v + (1 − β2) g²
//                    w ← w − lr/(1 − β1^t) · m / (sqrt(v)/sqrt(1 − β2^t) + ε)
template <class Real, bool kWithCopy>
LONGHAUL_INLINE void adamw_loop(Real* __restrict master, Real* __restrict m, Real* __restrict v, Real* __restrict grad,
                                uint16_t* __restrict value, int64_t n, const AdamwScalars& scalars) {
  const Real scale = static_cast<Real>(scalars.gradient_scale), eps = static_cast<Real>(scalars.eps);
  const Real beta1 = static_cast<Real>(scalars.beta1), rest1 = static_cast<Real>(1 - scalars.beta1);
  const Real beta2 = static_cast<Real>(scalars.beta2), rest2 = static_cast<Real>(1 - scalars.beta2);
  const Real kept = static_cast<Real>(scalars.kept_weight), step_size = static_cast<Real>(scalars.step_size);
  const Real correction = static_cast<Real>(scalars.inverse_root_correction);
  const auto update = [&](int64_t i) {
    const Real g = grad[i] * scale;
    const Real first = beta1 * m[i] + rest1 * g;
    const Real second = beta2 * v[i] + rest2 * (g * g);
    const Real weight = kept * master[i] - step_size * (first / (std::sqrt(second) * correction + eps));
    m[i] = first;
    v[i] = second;
    master[i] = weight;
    if constexpr (kWithCopy) value[i] = bf16_bits(static_cast<float>(weight));
  };
  if (scalars.zero_gradient) {
    for (int64_t i = 0; i < n; ++i) {
      update(i);
      grad[i] = 0;
    }
  } else {
    for (int64_t i = 0; i < n; ++i) update(i);
  }
}

template <class Real>
LONGHAUL_INLINE double squares_loop(const Real* __restrict x, int64_t n) {
  constexpr int64_t kLanes = 16;
  double sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const double wide = x[i + lane];
      sums[lane] += wide * wide;
    }
  }
  for (int64_t lane = 0; i + lane < n; ++lane) {
    const double wide = x[i + lane];
    sums[lane] += wide * wide;
  }
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  }
  return sums[0];
}

// One struct of functions per instruction set.
#define LONGHAUL_ELEMENT_LOOPS(SET, TARGET)                                                                                       \
  TARGET void adamw_fp32_##SET(float* w, float* m, float* v, float* g, int64_t n, const AdamwScalars& scalars) {                  \
    adamw_loop<float, false>(w, m, v, g, nullptr, n, scalars);                                                                    \
  }                                                                                                                               \
  TARGET void adamw_fp64_##SET(double* w, double* m, double* v, double* g, int64_t n, const AdamwScalars& scalars) {              \
    adamw_loop<double, false>(w, m, v, g, nullptr, n, scalars);                                                                   \
  }                                                                                                                               \
  TARGET void adamw_bf16_##SET(float* w, float* m, float* v, float* g, uint16_t* value, int64_t n, const AdamwScalars& scalars) { \
    adamw_loop<float, true>(w, m, v, g, value, n, scalars);                                                                       \
  }                                                                                                                               \
  TARGET double squares_fp32_##SET(const float* x, int64_t n) { return squares_loop(x, n); }                                      \
  TARGET double squares_fp64_##SET(const double* x, int64_t n) { return squares_loop(x, n); }                                     \
  constexpr ElementLoops k_##SET{#SET, adamw_fp32_##SET, adamw_fp64_##SET, adamw_bf16_##SET, squares_fp32_##SET, squares_fp64_##SET};

LONGHAUL_ELEMENT_LOOPS(baseline, )
#ifdef __x86_64__
LONGHAUL_ELEMENT_LOOPS(avx2, __attribute__((target("avx2"))))
LONGHAUL_ELEMENT_LOOPS(avx512, __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))))
#endif

}  // namespace

const std::vector<ElementLoops>& usable_element_loops() {
  static const std::vector<ElementLoops> loops = [] {
    std::vector<ElementLoops> usable;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl")) {
      usable.push_back(k_avx512);
    }
    if (__builtin_cpu_supports("avx2")) usable.push_back(k_avx2);
#endif
    usable.push_back(k_baseline);
    return usable;
  }();
  return loops;
}

}  // namespace longhaul::kernels
