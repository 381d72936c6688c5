#include "kernels/rotary_heads/loops.h"

#include <algorithm>

#include "kernels/vector/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rotary_heads/loops.cpp"
#include <hwy/foreach_target.h>
#include "kernels/vector/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels {
namespace HWY_NAMESPACE {

// One token: (a, b) ← (a cos − b sin, b cos + a sin), or with −sin the way back.
template <class In, bool kBack>
HWY_INLINE void rotate_row(const RotateHeads& p, int64_t t) {
  using Real = RealOf<In>;
  const VectorTag<In> d;
  const auto *cos = static_cast<const Real*>(p.cos_tr) + t * p.pairs,
             *sin = static_cast<const Real*>(p.sin_tr) + t * p.pairs;
  In* row = static_cast<In*>(p.x_thd) + t * p.row;
  for (int64_t h = 0; h < p.rotated; ++h) {
    In *first = row + h * p.head_dim, *second = first + p.pairs;
    walk(d, p.pairs, [&](auto at) LONGHAUL_VECTOR {
      const auto a = load(d, first, at), b = load(d, second, at), c = load(d, cos, at);
      const auto s = kBack ? hn::Neg(load(d, sin, at)) : load(d, sin, at);
      store(d, hn::NegMulAdd(b, s, hn::Mul(a, c)), first, at);
      store(d, hn::MulAdd(a, s, hn::Mul(b, c)), second, at);
    });
  }
}

template <class In>
void rotate(const RotateHeads& p, int64_t begin, int64_t end) {
  for (int64_t t = begin; t < end; ++t) rotate_row<In, false>(p, t);
}

template <class In>
void gather(const GatherHeads& p, int64_t begin, int64_t end) {
  for (int64_t t = begin; t < end; ++t) {
    In* to = static_cast<In*>(p.rotate.x_thd) + t * p.rotate.row;
    for (size_t i = 0; i < p.parts.size(); ++i) {
      std::copy_n(static_cast<const In*>(p.parts[i]) + t * p.strides[i], p.elements[i], to);
      to += p.elements[i];
    }
    if (p.rotate.pairs > 0) rotate_row<In, true>(p.rotate, t);  // in cache still
  }
}

void rotate_any(const RotateHeads& p, int64_t begin, int64_t end) {
  with_storage(p.storage, [&](auto in) HWY_ATTR { rotate<decltype(in)>(p, begin, end); });
}
void gather_any(const GatherHeads& p, int64_t begin, int64_t end) {
  with_storage(p.rotate.storage, [&](auto in) HWY_ATTR { gather<decltype(in)>(p, begin, end); });
}

}  // namespace HWY_NAMESPACE
}  // namespace longhaul::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longhaul::kernels {

void rotate_rows(const RotateHeads& p, int64_t begin, int64_t end) {
  LONGHAUL_CHOOSE(rotate_any)(p, begin, end);
}
void gather_rows(const GatherHeads& p, int64_t begin, int64_t end) {
  LONGHAUL_CHOOSE(gather_any)(p, begin, end);
}

}  // namespace longhaul::kernels
#endif
