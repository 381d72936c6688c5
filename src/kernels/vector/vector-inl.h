// Vectors for the memory-bound operators: rows of bf16, fp32 or fp64 are read as fp32 (fp64) vectors, computed on, and rounded once
// when stored. Compiled once per instruction set (Highway's foreach_target); everything lives in HWY_NAMESPACE.
//
//   walk(d, n, [&](auto at) LONGHAUL_VECTOR { store(d, mul(load(d, x, at), …), y, at); })
//
// visits n elements in whole vectors and one shorter rest; `at` says where, and never lets anything outside [0, n) be touched.
// bf16 is held as its bits (uint16_t); rounding is to nearest, ties to even, and every NaN becomes the quiet 0x7fc0.
// Relative errors, measured in tests/kernels/vector_test.cpp: exponential 2^-22, sigmoid 2^-21 in fp32 (2^-51, 2^-50 in fp64). A NaN
// stays a NaN through all of them.

// Per-target include guard.
#if defined(LONGHAUL_KERNELS_VECTOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LONGHAUL_KERNELS_VECTOR_INL_H_
#undef LONGHAUL_KERNELS_VECTOR_INL_H_
#else
#define LONGHAUL_KERNELS_VECTOR_INL_H_
#endif

#include <cstdint>
#include <cstring>
#include <type_traits>

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#ifndef LONGHAUL_VECTOR
#define LONGHAUL_VECTOR HWY_ATTR __attribute__((always_inline))
#endif

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The type that elements stored as In are computed in.
template <class In>
using RealOf = std::conditional_t<std::is_same_v<In, double>, double, float>;
template <class In>
using VectorTag = hn::ScalableTag<RealOf<In>>;

struct Whole {  // all lanes of a vector, from element i on
  int64_t i;
};
struct Rest {  // its first n lanes only
  int64_t i, n;
};

template <class D, class Body>
HWY_INLINE void walk(D d, int64_t count, const Body& body) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) body(Whole{i});
  if (i < count) body(Rest{i, count - i});
}

template <class D>
HWY_INLINE hn::Vec<D> load_whole(D d, const hn::TFromD<D>* p) {
  return hn::LoadU(d, p);
}
template <class D>
HWY_INLINE hn::Vec<D> load_whole(D d, const uint16_t* p) {
  const hn::Rebind<uint16_t, D> narrow;
  const hn::RebindToUnsigned<D> wide;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(wide, hn::LoadU(narrow, p))));
}

// The bits of bf16 in a vector of 16-bit lanes.
template <class D>
HWY_INLINE auto rounded_bf16([[maybe_unused]] D d, hn::Vec<D> v) {
  const hn::RebindToUnsigned<D> u;
  const auto bits = hn::BitCast(u, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(u, 1));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(u, 0x7fff)));
  const auto kept = hn::IfThenElse(hn::RebindMask(u, hn::IsNaN(v)), hn::Set(u, 0x7fc00000u), rounded);
#if HWY_TARGET == HWY_AVX3
  const hn::Repartition<uint16_t, D> halves;
  return hn::LowerHalf(hn::ConcatOdd(halves, hn::BitCast(halves, kept), hn::BitCast(halves, kept)));  // one permutation
#else
  const hn::Rebind<uint16_t, D> narrow;
  const hn::RebindToSigned<D> s;
  return hn::DemoteTo(narrow, hn::BitCast(s, hn::ShiftRight<16>(kept)));
#endif
}

template <class D>
HWY_INLINE void store_whole(D d, hn::Vec<D> v, hn::TFromD<D>* p) {
  hn::StoreU(v, d, p);
}
template <class D>
HWY_INLINE void store_whole(D d, hn::Vec<D> v, uint16_t* p) {
  const hn::Rebind<uint16_t, D> narrow;
  hn::StoreU(rounded_bf16(d, v), narrow, p);
}

template <class D, class In>
HWY_INLINE hn::Vec<D> load(D d, const In* p, Whole at) {
  return load_whole(d, p + at.i);
}
// Lanes beyond the rest are zero.
template <class D, class In>
HWY_INLINE hn::Vec<D> load(D d, const In* p, Rest at) {
  HWY_ALIGN In lanes[hn::MaxLanes(d)] = {};
  std::memcpy(lanes, p + at.i, static_cast<size_t>(at.n) * sizeof(In));
  return load_whole(d, static_cast<const In*>(lanes));
}
template <class D, class Out>
HWY_INLINE void store(D d, hn::Vec<D> v, Out* p, Whole at) {
  store_whole(d, v, p + at.i);
}
template <class D, class Out>
HWY_INLINE void store(D d, hn::Vec<D> v, Out* p, Rest at) {
  HWY_ALIGN Out lanes[hn::MaxLanes(d)];
  store_whole(d, v, static_cast<Out*>(lanes));
  std::memcpy(p + at.i, lanes, static_cast<size_t>(at.n) * sizeof(Out));
}

// v as a store and a load of In would leave it: what backward will read.
template <class In, class D>
HWY_INLINE hn::Vec<D> as_stored(D d, hn::Vec<D> v) {
  if constexpr (std::is_same_v<In, uint16_t>) {
    const hn::RebindToUnsigned<D> wide;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(wide, rounded_bf16(d, v))));
  } else {
    return v;
  }
}

// Lanes of a rest that lie outside it become zero: for sums of what is not zero there by itself.
template <class D>
HWY_INLINE hn::Vec<D> only(D, hn::Vec<D> v, Whole) {
  return v;
}
template <class D>
HWY_INLINE hn::Vec<D> only(D d, hn::Vec<D> v, Rest at) {
  return hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(at.n)), v);
}

template <class D>
HWY_INLINE hn::TFromD<D> sum_of_lanes(D d, hn::Vec<D> v) {
  return hn::GetLane(hn::SumOfLanes(d, v));
}

// e^x, x clamped to where neither the result nor its reciprocal overflows (|x| ≤ 87 in fp32, 700 in fp64).
template <class D>
HWY_INLINE hn::Vec<D> exponential(D d, hn::Vec<D> x) {
  using T = hn::TFromD<D>;
  if constexpr (std::is_same_v<T, float>) {
    // x = n ln 2 + r with |r| ≤ 0.35; e^r = 1 + r + r² P(r), P as in Cephes' expf. ln 2 in two parts, the first of which n multiplies
    // exactly, so it makes no difference whether multiply-adds are fused.
    const auto clamped = hn::Min(hn::Max(x, hn::Set(d, -87.0f)), hn::Set(d, 87.0f));
    // Adding 1.5 · 2^23 rounds to a whole number, which then stands in the lowest bits: no conversion.
    const auto shifted = hn::MulAdd(clamped, hn::Set(d, 1.44269504f), hn::Set(d, 12582912.0f));
    const auto n = hn::Sub(shifted, hn::Set(d, 12582912.0f));
    const auto r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), hn::NegMulAdd(n, hn::Set(d, 0.693359375f), clamped));
    auto p = hn::Set(d, 1.9875691500e-4f);
    p = hn::MulAdd(p, r, hn::Set(d, 1.3981999507e-3f));
    p = hn::MulAdd(p, r, hn::Set(d, 8.3334519073e-3f));
    p = hn::MulAdd(p, r, hn::Set(d, 4.1665795894e-2f));
    p = hn::MulAdd(p, r, hn::Set(d, 1.6666665459e-1f));
    p = hn::MulAdd(p, r, hn::Set(d, 5.0000001201e-1f));
    p = hn::Add(hn::MulAdd(p, hn::Mul(r, r), r), hn::Set(d, 1.0f));
    const hn::RebindToSigned<D> s;
    const auto y = hn::BitCast(d, hn::Add(hn::BitCast(s, p), hn::ShiftLeft<23>(hn::BitCast(s, shifted))));  // times 2^n
    return hn::IfThenElse(hn::IsNaN(x), x, y);
  } else {
    const auto clamped = hn::Min(hn::Max(x, hn::Set(d, -700.0)), hn::Set(d, 700.0));
    return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(d, clamped));  // Highway's takes a NaN for a very negative number
  }
}

// 1/x for x in [1, 1e38]. AVX-512's estimate has 14 bits, so one Newton step is as good as a division and takes a third of its time;
// other sets' estimates are too coarse for that.
template <class D>
HWY_INLINE hn::Vec<D> reciprocal(D d, hn::Vec<D> x) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (std::is_same_v<hn::TFromD<D>, float>) {
    const auto estimate = hn::ApproximateReciprocal(x);
    return hn::Mul(estimate, hn::NegMulAdd(x, estimate, hn::Set(d, 2.0f)));
  }
#endif
  return hn::Div(hn::Set(d, hn::TFromD<D>(1)), x);
}

template <class D>
HWY_INLINE hn::Vec<D> sigmoid(D d, hn::Vec<D> x) {
  return reciprocal(d, hn::Add(hn::Set(d, hn::TFromD<D>(1)), exponential(d, hn::Neg(x))));
}

}  // namespace HWY_NAMESPACE
}  // namespace longhaul::kernels
HWY_AFTER_NAMESPACE();
#endif
