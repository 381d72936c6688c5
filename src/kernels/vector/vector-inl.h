// Vectors for the memory-bound operators: rows of bf16, fp32 or fp64 are read as fp32 (fp64) vectors,
// computed on, and rounded once when stored. Compiled once per instruction set (Highway's foreach_target);
// everything lives in HWY_NAMESPACE.
//
//   walk(d, n, [&](auto at) LONGHAUL_VECTOR { store(d, mul(load(d, x, at), …), y, at); })
//
// visits n elements in whole vectors and one shorter rest; `at` says where, and never lets anything outside
// [0, n) be touched. bf16 is held as its bits (uint16_t); rounding is to nearest, ties to even, and every NaN
// becomes the quiet 0x7fc0. Relative errors, measured in tests/kernels/vector_test.cpp: exponential 2^-23,
// sigmoid 2^-21 in fp32 (2^-51, 2^-50 in fp64). A NaN stays a NaN through all of them.

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
  // one permutation
  return hn::LowerHalf(hn::ConcatOdd(halves, hn::BitCast(halves, kept), hn::BitCast(halves, kept)));
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

#if HWY_TARGET == HWY_AVX3
// With `using native::store`, bf16 is stored by VCVTNEPS2BF16, one instruction for seven, with the same bits
// except that denormals become 0. For functions that are chosen where block_kernels() names a set that has
// it; Highway's target does not.
namespace native {
HWY_INLINE __m256i rounded(hn::Vec<hn::ScalableTag<float>> v) {
  __m256i halves;
  asm("vcvtneps2bf16 %1, %0" : "=v"(halves) : "v"(v.raw));
  return halves;
}
HWY_INLINE void store(hn::ScalableTag<float>, hn::Vec<hn::ScalableTag<float>> v, uint16_t* p, Whole at) {
  const __m256i halves = rounded(v);
  std::memcpy(p + at.i, &halves, sizeof halves);
}
HWY_INLINE void store(hn::ScalableTag<float>, hn::Vec<hn::ScalableTag<float>> v, uint16_t* p, Rest at) {
  const __m256i halves = rounded(v);
  std::memcpy(p + at.i, &halves, static_cast<size_t>(at.n) * sizeof *p);
}
}  // namespace native
#endif

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

// The first n lanes. n may be negative or more than there are (AVX-512's own instruction looks at its last
// eight bits only).
template <class D>
HWY_INLINE hn::Mask<D> mask_of_first(D d, int64_t n) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  return hn::FirstN(d, static_cast<size_t>(n < 0 ? 0 : n > lanes ? lanes : n));
}

// Lanes of a rest that lie outside it become zero: for sums of what is not zero there by itself.
template <class D>
HWY_INLINE hn::Vec<D> only(D, hn::Vec<D> v, Whole) {
  return v;
}
template <class D>
HWY_INLINE hn::Vec<D> only(D d, hn::Vec<D> v, Rest at) {
  return hn::IfThenElseZero(mask_of_first(d, at.n), v);
}

template <class D>
HWY_INLINE hn::TFromD<D> sum_of_lanes(D d, hn::Vec<D> v) {
  return hn::GetLane(hn::SumOfLanes(d, v));
}

// Σ x² in fp64 in sixteen interleaved sums, added up in one order: the same bits whatever the instruction
// set, in a file that is compiled without contracted multiply-adds.
class SquareSums {
 public:
  HWY_INLINE SquareSums() {
    for (auto& sum : sums_) sum = hn::Zero(kDoubles);
  }
  template <class Real>
  HWY_INLINE void add(const Real* sixteen) {
    for (size_t i = 0; i < kVectors; ++i) {
      const auto x = wide(sixteen + i * kLanes);
      sums_[i] = hn::Add(sums_[i], hn::Mul(x, x));
    }
  }
  HWY_INLINE double total() const {
    double sums[16];
    for (size_t i = 0; i < kVectors; ++i) hn::StoreU(sums_[i], kDoubles, sums + i * kLanes);
    for (int half = 8; half > 0; half /= 2) {
      for (int i = 0; i < half; ++i) sums[i] += sums[i + half];
    }
    return sums[0];
  }

 private:
  using Doubles = hn::ScalableTag<double>;
  static constexpr Doubles kDoubles{};
  static constexpr size_t kLanes = hn::MaxLanes(Doubles()), kVectors = 16 / kLanes;
  HWY_INLINE static hn::Vec<Doubles> wide(const double* x) { return hn::LoadU(kDoubles, x); }
  HWY_INLINE static hn::Vec<Doubles> wide(const float* x) {
    return hn::PromoteTo(kDoubles, hn::LoadU(hn::Rebind<float, Doubles>(), x));
  }
  hn::Vec<Doubles> sums_[kVectors];
};

// 2^n · 2^f for a vector `shifted` of kShift + n (n whole, |n| ≤ 126) and |f| ≤ ½: the one polynomial of
// every fp32 exponential. 1 + f·q(f) with the least largest relative error for q of degree 5, 2e-9; with
// rounding 8e-8. A NaN in f stays one. 1.5 · 2^23 + the exponent's bias: added to x, it leaves n + 127 in the
// lowest bits
inline constexpr float kShift = 12582912.0f + 127.0f;
template <class D>
HWY_INLINE hn::Vec<D> power_of_two(D d, hn::Vec<D> shifted, hn::Vec<D> f) {
  const hn::RebindToUnsigned<D> bits;
  auto p = hn::Set(d, 1.5353362e-4f);
  p = hn::MulAdd(p, f, hn::Set(d, 1.3398875e-3f));
  p = hn::MulAdd(p, f, hn::Set(d, 9.6184369e-3f));
  p = hn::MulAdd(p, f, hn::Set(d, 5.5503324e-2f));
  p = hn::MulAdd(p, f, hn::Set(d, 2.4022648e-1f));
  p = hn::MulAdd(p, f, hn::Set(d, 6.9314718e-1f));
  p = hn::MulAdd(p, f, hn::Set(d, 1.0f));
  return hn::Mul(p, hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(bits, shifted))));
}

// 2^x in fp32 for x ≤ 126. Below −126: 0, so that no denormal arises.
template <class D>
HWY_INLINE hn::Vec<D> exponential_of_two(D d, hn::Vec<D> x) {
  const auto shift = hn::Set(d, kShift), shifted = hn::Add(x, shift);
  const auto y = power_of_two(d, shifted, hn::Sub(x, hn::Sub(shifted, shift)));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -126.0f)), y);
}

// e^x. In fp32 0 below −87 and e^87 above 87: no denormals and no infinities. In fp64 x is clamped to ±700.
template <class D>
HWY_INLINE hn::Vec<D> exponential(D d, hn::Vec<D> x) {
  using T = hn::TFromD<D>;
  if constexpr (std::is_same_v<T, float>) {
    // x = n ln 2 + r. ln 2 in two parts, the first of which n multiplies exactly: so it makes no difference
    // whether multiply-adds are fused.
    const auto shift = hn::Set(d, kShift), shifted = hn::MulAdd(x, hn::Set(d, 1.44269504f), shift),
               n = hn::Sub(shifted, shift);
    const auto r =
        hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x));
    const auto y = power_of_two(d, shifted, hn::Mul(r, hn::Set(d, 1.44269504f)));
    const auto bounded = hn::IfThenElse(hn::Gt(x, hn::Set(d, 87.0f)), hn::Set(d, 6.0760303e37f), y);
    return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.0f)), bounded);
  } else {
    const auto clamped = hn::Min(hn::Max(x, hn::Set(d, -700.0)), hn::Set(d, 700.0));
    // Highway's takes a NaN for a very negative number
    return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(d, clamped));
  }
}

// 1/x for x in [1, 1e38]. AVX-512's estimate has 14 bits, so one Newton step is as good as a division and
// takes a third of its time; other sets' estimates are too coarse for that.
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
