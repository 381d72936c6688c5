// Loops over more elements than caches hold, over several arrays at once, whose time is limited by memory:
// each iteration handles two vectors, so that it covers whole lines of fp32 and writes bf16 in one store,
// and each array is prefetched. An array that is written and not read (a working copy) gains most: without
// prefetching its stores wait for their lines, and all later ones wait with them (measured: docs/log.md,
// 2026-11-26). The values in the arrays are the same as without.
//
//   walk_pairs(d, n, [&](auto at) LONGHAUL_VECTOR { … return weight; }, value, master, m, v, gradient)
//
// calls `update` for every element, as walk() does, and stores its result as bf16 if `value` is not null.

// Per-target include guard.
#if defined(LONGHAUL_KERNELS_VECTOR_PAIRS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LONGHAUL_KERNELS_VECTOR_PAIRS_INL_H_
#undef LONGHAUL_KERNELS_VECTOR_PAIRS_INL_H_
#else
#define LONGHAUL_KERNELS_VECTOR_PAIRS_INL_H_
#endif

#include <hwy/cache_control.h>

#include "kernels/vector/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels {
namespace HWY_NAMESPACE {

inline constexpr int64_t kLineBytes = 64, kAheadBytes = 384;

// The lines that `count` elements from p + i on will have lain in when kAheadBytes of fp32 are done. Past the
// end of an array it asks for nothing that faults.
template <class T>
HWY_INLINE void ask_ahead(const T* p, int64_t i, int64_t count, int64_t ahead_elements) {
  const char* const from = reinterpret_cast<const char*>(p + i + ahead_elements);
  for (int64_t byte = 0; byte < count * static_cast<int64_t>(sizeof(T)); byte += kLineBytes)
    hwy::Prefetch(from + byte);
}

// a, then b, as bf16.
template <class D>
HWY_INLINE void store_pair(D d, hn::Vec<D> a, hn::Vec<D> b, uint16_t* p) {
#if HWY_TARGET == HWY_AVX2
  // rounded_bf16 of both with one packing, whose quarters then stand crosswise.
  const hn::RebindToUnsigned<D> u;
  const auto upper_half = [&](hn::Vec<D> v) LONGHAUL_VECTOR {
    const auto bits = hn::BitCast(u, v);
    const auto rounded =
        hn::Add(bits, hn::Add(hn::And(hn::ShiftRight<16>(bits), hn::Set(u, 1)), hn::Set(u, 0x7fff)));
    return hn::ShiftRight<16>(
               hn::IfThenElse(hn::RebindMask(u, hn::IsNaN(v)), hn::Set(u, 0x7fc00000u), rounded))
        .raw;
  };
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm256_permute4x64_epi64(_mm256_packus_epi32(upper_half(a), upper_half(b)), 0xd8));
#else
  store(d, a, p, Whole{0});
  store(d, b, p, Whole{static_cast<int64_t>(hn::Lanes(d))});
#endif
}

template <class D, class Update, class... Arrays>
HWY_INLINE void walk_pairs(D d, int64_t n, const Update& update, [[maybe_unused]] uint16_t* value,
                           const Arrays*... arrays) {
  constexpr bool kMayBeCopied = std::is_same_v<hn::TFromD<D>, float>;
  constexpr auto kAhead = kAheadBytes / static_cast<int64_t>(sizeof(hn::TFromD<D>));
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), pair = 2 * lanes;
  int64_t i = 0;
  for (; i + pair <= n; i += pair) {
    (ask_ahead(arrays, i, pair, kAhead), ...);
    if constexpr (kMayBeCopied) {
      if (value != nullptr) ask_ahead(value, i, pair, kAhead);
    }
    const auto a = update(Whole{i}), b = update(Whole{i + lanes});
    if constexpr (kMayBeCopied) {
      if (value != nullptr) store_pair(d, a, b, value + i);
    }
  }
  const auto one = [&](auto at) LONGHAUL_VECTOR {
    const auto a = update(at);
    if constexpr (kMayBeCopied) {
      if (value != nullptr) store(d, a, value, at);
    }
  };
  if (i + lanes <= n) {
    one(Whole{i});
    i += lanes;
  }
  if (i < n) one(Rest{i, n - i});
}

}  // namespace HWY_NAMESPACE
}  // namespace longhaul::kernels
HWY_AFTER_NAMESPACE();

#endif  // include guard
