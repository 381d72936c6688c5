#include "kernels/short_convolution/loops.h"

#include "kernels/vector/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/short_convolution/loops.cpp"
#include <hwy/foreach_target.h>
#include "kernels/vector/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels {
namespace HWY_NAMESPACE {

// start + Σ_j weight_j ⊙ row[j], of the channels `at`.
template <class Row, class D, class At>
HWY_INLINE hn::Vec<D> weighted(const ShortConvolution& p, D d, const void* const* row, hn::Vec<D> start,
                               At at) {
  const auto* weight = static_cast<const hn::TFromD<D>*>(p.weight_wc);
  auto sum = start;
  for (int64_t j = 0; j < p.width; ++j) {
    if (row[j] != nullptr)
      sum =
          hn::MulAdd(load(d, weight + j * p.channels, at), load(d, static_cast<const Row*>(row[j]), at), sum);
  }
  return sum;
}

template <class In>
void convolve(const ShortConvolution& p, const void* const* x, void* y) {
  using Real = RealOf<In>;
  const VectorTag<In> d;
  const auto* bias = static_cast<const Real*>(p.bias_c);
  walk(d, p.channels, [&](auto at) LONGHAUL_VECTOR {
    const auto z = weighted<In>(p, d, x, bias != nullptr ? load(d, bias, at) : hn::Zero(d), at);
    store(d, p.silu ? hn::Mul(z, sigmoid(d, z)) : z, static_cast<In*>(y), at);
  });
}

template <class In>
void slope(const ShortConvolution& p, const void* const* x, const void* dy, void* dz_any, void* d_weight_any,
           void* d_bias_any) {
  using Real = RealOf<In>;
  const VectorTag<In> d;
  const auto one = hn::Set(d, Real(1));
  const auto* bias = static_cast<const Real*>(p.bias_c);
  auto *d_weight = static_cast<Real*>(d_weight_any), *d_bias = static_cast<Real*>(d_bias_any),
       *dz = static_cast<Real*>(dz_any);
  walk(d, p.channels, [&](auto at) LONGHAUL_VECTOR {
    auto slope = load(d, static_cast<const In*>(dy), at);
    if (p.silu) {
      const auto z = weighted<In>(p, d, x, bias != nullptr ? load(d, bias, at) : hn::Zero(d), at),
                 s = sigmoid(d, z);
      slope = hn::Mul(slope, hn::Mul(s, hn::MulAdd(z, hn::Sub(one, s), one)));
    }
    store(d, slope, dz, at);
    if (d_bias != nullptr) store(d, hn::Add(load(d, d_bias, at), slope), d_bias, at);
    for (int64_t j = 0; d_weight != nullptr && j < p.width; ++j) {
      if (x[j] == nullptr) continue;
      Real* const to = d_weight + j * p.channels;
      store(d, hn::MulAdd(slope, load(d, static_cast<const In*>(x[j]), at), load(d, to, at)), to, at);
    }
  });
}

template <class In>
void input(const ShortConvolution& p, const void* const* dz, const void* beside, void* dx) {
  using Real = RealOf<In>;
  const VectorTag<In> d;
  walk(d, p.channels, [&](auto at) LONGHAUL_VECTOR {
    const auto start = beside != nullptr ? load(d, static_cast<const In*>(beside), at) : hn::Zero(d);
    store(d, weighted<Real>(p, d, dz, start, at), static_cast<In*>(dx), at);
  });
}

void convolve_any(const ShortConvolution& p, const void* const* x, void* y) {
  with_storage(p.storage, [&](auto in) HWY_ATTR { convolve<decltype(in)>(p, x, y); });
}
void slope_any(const ShortConvolution& p, const void* const* x, const void* dy, void* dz, void* d_weight,
               void* d_bias) {
  with_storage(p.storage, [&](auto in) HWY_ATTR { slope<decltype(in)>(p, x, dy, dz, d_weight, d_bias); });
}
void input_any(const ShortConvolution& p, const void* const* dz, const void* beside, void* dx) {
  with_storage(p.storage, [&](auto in) HWY_ATTR { input<decltype(in)>(p, dz, beside, dx); });
}

}  // namespace HWY_NAMESPACE
}  // namespace longhaul::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longhaul::kernels {

void convolve_row(const ShortConvolution& p, const void* const* x, void* y) {
  LONGHAUL_CHOOSE(convolve_any)(p, x, y);
}
void convolution_slope_row(const ShortConvolution& p, const void* const* x, const void* dy, void* dz,
                           void* d_weight, void* d_bias) {
  LONGHAUL_CHOOSE(slope_any)(p, x, dy, dz, d_weight, d_bias);
}
void convolution_input_row(const ShortConvolution& p, const void* const* dz, const void* beside, void* dx) {
  LONGHAUL_CHOOSE(input_any)(p, dz, beside, dx);
}

}  // namespace longhaul::kernels
#endif
