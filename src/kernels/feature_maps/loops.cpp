#include "kernels/feature_maps/loops.h"

#include "kernels/vector/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/feature_maps/loops.cpp"
#include <hwy/foreach_target.h>
#include "kernels/vector/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels {
namespace HWY_NAMESPACE {

template <FeatureMap kMap, class D>
HWY_INLINE hn::Vec<D> mapped(D d, hn::Vec<D> x) {
  if constexpr (kMap == FeatureMap::kSilu) return hn::Mul(x, sigmoid(d, x));
  if constexpr (kMap == FeatureMap::kSigmoid) return sigmoid(d, x);
  // a NaN stays one
  if constexpr (kMap == FeatureMap::kRelu) return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);
  return x;
}

template <FeatureMap kMap, class D>
HWY_INLINE hn::Vec<D> map_slope(D d, hn::Vec<D> x) {
  const auto one = hn::Set(d, hn::TFromD<D>(1));
  if constexpr (kMap == FeatureMap::kSilu) {
    const auto s = sigmoid(d, x);
    return hn::Mul(s, hn::MulAdd(x, hn::Sub(one, s), one));
  }
  if constexpr (kMap == FeatureMap::kSigmoid) {
    const auto s = sigmoid(d, x);
    return hn::Mul(s, hn::Sub(one, s));
  }
  if constexpr (kMap == FeatureMap::kRelu) return hn::IfThenElseZero(hn::Gt(x, hn::Zero(d)), one);
  return one;
}

// Calls body(constant) with the map as a template argument.
template <class Body>
HWY_INLINE void with_map(FeatureMap map, const Body& body) {
  switch (map) {
    case FeatureMap::kNone:
      return body(std::integral_constant<FeatureMap, FeatureMap::kNone>{});
    case FeatureMap::kSilu:
      return body(std::integral_constant<FeatureMap, FeatureMap::kSilu>{});
    case FeatureMap::kRelu:
      return body(std::integral_constant<FeatureMap, FeatureMap::kRelu>{});
    case FeatureMap::kSigmoid:
      return body(std::integral_constant<FeatureMap, FeatureMap::kSigmoid>{});
  }
}

template <class Real>
struct Angles {
  const Real *cos, *sin;
  Real *d_cos, *d_sin;  // null: not wanted
};

// One head of one token.
template <class In, FeatureMap kMap>
HWY_INLINE void head_features(const FeatureLoops& p, const In* x, const Angles<RealOf<In>>& a, In* y) {
  const VectorTag<In> d;
  const int64_t half = p.head_dim / 2;
  switch (p.turn) {
    case Turn::kNone:
      return walk(d, p.head_dim,
                  [&](auto at) LONGHAUL_VECTOR { store(d, mapped<kMap>(d, load(d, x, at)), y, at); });
    case Turn::kCosine:
      return walk(d, p.head_dim, [&](auto at) LONGHAUL_VECTOR {
        const auto f = mapped<kMap>(d, load(d, x, at));
        store(d, hn::Mul(f, load(d, a.cos, at)), y, at);
        store(d, hn::Mul(f, load(d, a.sin, at)), y + p.head_dim, at);
      });
    case Turn::kRotary:
      return walk(d, half, [&](auto at) LONGHAUL_VECTOR {
        const auto f = mapped<kMap>(d, load(d, x, at)), g = mapped<kMap>(d, load(d, x + half, at));
        const auto c = load(d, a.cos, at), s = load(d, a.sin, at);
        store(d, hn::NegMulAdd(g, s, hn::Mul(f, c)), y, at);
        store(d, hn::MulAdd(f, s, hn::Mul(g, c)), y + half, at);
      });
  }
}

template <class In, FeatureMap kMap>
HWY_INLINE void head_gradient(const FeatureLoops& p, const In* x, const Angles<RealOf<In>>& a, const In* dy,
                              In* dx) {
  const VectorTag<In> d;
  const int64_t half = p.head_dim / 2;
  const auto add = [&](auto v, auto* to, auto at)
                       LONGHAUL_VECTOR { store(d, hn::Add(load(d, to, at), v), to, at); };
  switch (p.turn) {
    case Turn::kNone:
      return walk(d, p.head_dim, [&](auto at) LONGHAUL_VECTOR {
        store(d, hn::Mul(load(d, dy, at), map_slope<kMap>(d, load(d, x, at))), dx, at);
      });
    case Turn::kCosine:
      return walk(d, p.head_dim, [&](auto at) LONGHAUL_VECTOR {
        const auto v = load(d, x, at), dc = load(d, dy, at), ds = load(d, dy + p.head_dim, at);
        const auto slope = hn::MulAdd(dc, load(d, a.cos, at), hn::Mul(ds, load(d, a.sin, at)));
        store(d, hn::Mul(slope, map_slope<kMap>(d, v)), dx, at);
        if (a.d_cos == nullptr) return;
        const auto f = mapped<kMap>(d, v);
        add(hn::Mul(f, dc), a.d_cos, at);
        add(hn::Mul(f, ds), a.d_sin, at);
      });
    case Turn::kRotary:
      return walk(d, half, [&](auto at) LONGHAUL_VECTOR {
        const auto u = load(d, x, at), v = load(d, x + half, at), df = load(d, dy, at),
                   dg = load(d, dy + half, at);
        const auto c = load(d, a.cos, at), s = load(d, a.sin, at);
        store(d, hn::Mul(hn::MulAdd(df, c, hn::Mul(dg, s)), map_slope<kMap>(d, u)), dx, at);
        store(d, hn::Mul(hn::NegMulAdd(df, s, hn::Mul(dg, c)), map_slope<kMap>(d, v)), dx + half, at);
        if (a.d_cos == nullptr) return;
        const auto f = mapped<kMap>(d, u), g = mapped<kMap>(d, v);
        add(hn::MulAdd(df, f, hn::Mul(dg, g)), a.d_cos, at);
        add(hn::NegMulAdd(df, g, hn::Mul(dg, f)), a.d_sin, at);
      });
  }
}

// The angles of head h of token t.
template <class Real>
HWY_INLINE Angles<Real> angles_of(const FeatureLoops& p, int64_t t, int64_t h) {
  if (p.turn == Turn::kNone) return {};
  const int64_t at = t * p.angles + (p.angles == p.of_head ? 0 : h * p.of_head);
  Real *const d_cos = static_cast<Real*>(p.d_cos_tr), *const d_sin = static_cast<Real*>(p.d_sin_tr);
  return {static_cast<const Real*>(p.cos_tr) + at, static_cast<const Real*>(p.sin_tr) + at,
          d_cos != nullptr ? d_cos + at : nullptr, d_sin != nullptr ? d_sin + at : nullptr};
}

template <class In>
void feature(const FeatureLoops& p, int64_t begin, int64_t end) {
  const int64_t out = p.turn == Turn::kCosine ? 2 * p.head_dim : p.head_dim;
  with_map(p.map, [&](auto map) LONGHAUL_VECTOR {
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t h = 0; h < p.heads; ++h) {
        head_features<In, map()>(p, static_cast<const In*>(p.x) + t * p.ld_x + h * p.head_dim,
                                 angles_of<RealOf<In>>(p, t, h),
                                 static_cast<In*>(p.y) + (t * p.heads + h) * out);
      }
    }
  });
}

template <class In>
void feature_gradient(const FeatureLoops& p, int64_t begin, int64_t end) {
  const int64_t out = p.turn == Turn::kCosine ? 2 * p.head_dim : p.head_dim;
  with_map(p.map, [&](auto map) LONGHAUL_VECTOR {
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t h = 0; h < p.heads; ++h) {
        head_gradient<In, map()>(p, static_cast<const In*>(p.x) + t * p.ld_x + h * p.head_dim,
                                 angles_of<RealOf<In>>(p, t, h),
                                 static_cast<const In*>(p.dy) + (t * p.heads + h) * out,
                                 static_cast<In*>(p.dx) + (t * p.heads + h) * p.head_dim);
      }
    }
  });
}

template <class In>
void gate(const GatedLoops& p, int64_t begin, int64_t end) {
  const VectorTag<In> d;
  with_map(p.map, [&](auto map) LONGHAUL_VECTOR {
    for (int64_t t = begin; t < end; ++t) {
      const In *n = static_cast<const In*>(p.n) + t * p.ld_n, *u = static_cast<const In*>(p.u) + t * p.ld_u;
      In* y = static_cast<In*>(p.y) + t * p.channels;
      walk(d, p.channels, [&](auto at) LONGHAUL_VECTOR {
        store(d, hn::Mul(load(d, n, at), mapped<map()>(d, load(d, u, at))), y, at);
      });
    }
  });
}

template <class In>
void gate_gradient(const GatedLoops& p, int64_t begin, int64_t end) {
  const VectorTag<In> d;
  with_map(p.map, [&](auto map) LONGHAUL_VECTOR {
    for (int64_t t = begin; t < end; ++t) {
      const In *n = static_cast<const In*>(p.n) + t * p.ld_n, *u = static_cast<const In*>(p.u) + t * p.ld_u;
      const In* dy = static_cast<const In*>(p.dy) + t * p.channels;
      In *dn = static_cast<In*>(p.dn) + t * p.channels, *du = static_cast<In*>(p.du) + t * p.channels;
      walk(d, p.channels, [&](auto at) LONGHAUL_VECTOR {
        const auto x = load(d, u, at), g = load(d, dy, at);
        store(d, hn::Mul(g, mapped<map()>(d, x)), dn, at);
        store(d, hn::Mul(hn::Mul(g, load(d, n, at)), map_slope<map()>(d, x)), du, at);
      });
    }
  });
}

void feature_any(const FeatureLoops& p, int64_t begin, int64_t end) {
  with_storage(p.storage, [&](auto in) HWY_ATTR { feature<decltype(in)>(p, begin, end); });
}
void feature_gradient_any(const FeatureLoops& p, int64_t begin, int64_t end) {
  with_storage(p.storage, [&](auto in) HWY_ATTR { feature_gradient<decltype(in)>(p, begin, end); });
}
void gate_any(const GatedLoops& p, int64_t begin, int64_t end) {
  with_storage(p.storage, [&](auto in) HWY_ATTR { gate<decltype(in)>(p, begin, end); });
}
void gate_gradient_any(const GatedLoops& p, int64_t begin, int64_t end) {
  with_storage(p.storage, [&](auto in) HWY_ATTR { gate_gradient<decltype(in)>(p, begin, end); });
}

}  // namespace HWY_NAMESPACE
}  // namespace longhaul::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longhaul::kernels {

void feature_rows(const FeatureLoops& p, int64_t begin, int64_t end) {
  LONGHAUL_CHOOSE(feature_any)(p, begin, end);
}
void feature_gradient_rows(const FeatureLoops& p, int64_t begin, int64_t end) {
  LONGHAUL_CHOOSE(feature_gradient_any)(p, begin, end);
}
void gated_rows(const GatedLoops& p, int64_t begin, int64_t end) { LONGHAUL_CHOOSE(gate_any)(p, begin, end); }
void gated_gradient_rows(const GatedLoops& p, int64_t begin, int64_t end) {
  LONGHAUL_CHOOSE(gate_gradient_any)(p, begin, end);
}

}  // namespace longhaul::kernels
#endif
