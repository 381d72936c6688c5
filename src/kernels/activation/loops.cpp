#include "kernels/activation/loops.h"

#include <algorithm>

#include "kernels/vector/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/activation/loops.cpp"
#include <hwy/foreach_target.h>
#include "kernels/vector/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels {
namespace HWY_NAMESPACE {

// silu'(x) = σ (1 + x (1 − σ))
template <class D>
HWY_INLINE hn::Vec<D> silu_slope(D d, hn::Vec<D> x, hn::Vec<D> s) {
  const auto one = hn::Set(d, hn::TFromD<D>(1));
  return hn::Mul(s, hn::MulAdd(x, hn::Sub(one, s), one));
}

template <class In>
void silu(const void* x_any, void* y_any, int64_t begin, int64_t end) {
  const VectorTag<In> d;
  const In* x = static_cast<const In*>(x_any) + begin;
  In* y = static_cast<In*>(y_any) + begin;
  walk(d, end - begin, [&](auto at) LONGHAUL_VECTOR {
    const auto v = load(d, x, at);
    store(d, hn::Mul(v, sigmoid(d, v)), y, at);
  });
}

template <class In>
void silu_backward(const SiluBackward& p, int64_t begin, int64_t end) {
  const VectorTag<In> d;
  for (int64_t t = begin; t < end; ++t) {
    const In* x = static_cast<const In*>(p.x_tc) + t * p.columns;
    In* dx = static_cast<In*>(p.dx_tc) + t * p.columns;
    for (const auto& part : p.dy) {
      const In* dy = static_cast<const In*>(part.data) + t * part.stride;
      walk(d, part.columns, [&](auto at) LONGHAUL_VECTOR {
        const auto v = load(d, x, at);
        store(d, hn::Mul(load(d, dy, at), silu_slope(d, v, sigmoid(d, v))), dx, at);
      });
      x += part.columns;
      dx += part.columns;
    }
  }
}

template <class In>
void swiglu_forward(const Swiglu& p, int64_t begin, int64_t end) {
  const VectorTag<In> d;
  for (int64_t t = begin; t < end; ++t) {
    const In *gate = static_cast<const In*>(p.gate) + t * p.ld_x,
             *up = static_cast<const In*>(p.up) + t * p.ld_x;
    In* y = static_cast<In*>(p.y) + t * p.ld_y;
    walk(d, p.width, [&](auto at) LONGHAUL_VECTOR {
      const auto g = load(d, gate, at);
      store(d, hn::Mul(hn::Mul(g, sigmoid(d, g)), load(d, up, at)), y, at);
    });
  }
}

template <class In>
void swiglu_backward(const Swiglu& p, int64_t begin, int64_t end) {
  const VectorTag<In> d;
  for (int64_t t = begin; t < end; ++t) {
    const In *gate = static_cast<const In*>(p.gate) + t * p.ld_x,
             *up = static_cast<const In*>(p.up) + t * p.ld_x;
    const In* dy = static_cast<const In*>(p.dy) + t * p.ld_y;
    In *d_gate = static_cast<In*>(p.d_gate) + t * p.ld_x, *d_up = static_cast<In*>(p.d_up) + t * p.ld_x;
    walk(d, p.width, [&](auto at) LONGHAUL_VECTOR {
      const auto g = load(d, gate, at), s = sigmoid(d, g), out = load(d, dy, at);
      store(d, hn::Mul(hn::Mul(out, load(d, up, at)), silu_slope(d, g, s)), d_gate, at);
      store(d, hn::Mul(out, hn::Mul(g, s)), d_up, at);
    });
  }
}

// gelu(z) = z σ(2u), u = √(2/π) (z + 0.044715 z³): the tanh form, since 1 + tanh u = 2 σ(2u).
template <class D>
HWY_INLINE hn::Vec<D> gelu_gate(D d, hn::Vec<D> z) {
  using T = hn::TFromD<D>;
  const auto cubic = hn::Set(d, T(2 * 0.79788456080286535588 * 0.044715)),
             linear = hn::Set(d, T(2 * 0.79788456080286535588));
  return sigmoid(d, hn::Mul(z, hn::MulAdd(cubic, hn::Mul(z, z), linear)));
}

template <class In>
void bias_gelu_forward(const BiasGelu& p, int64_t begin, int64_t end) {
  const VectorTag<In> d;
  const auto* bias = static_cast<const In*>(p.bias_c);
  for (int64_t t = begin; t < end; ++t) {
    const In* x = static_cast<const In*>(p.x) + t * p.ld_x;
    In* y = static_cast<In*>(p.y) + t * p.ld_y;
    walk(d, p.columns, [&](auto at) LONGHAUL_VECTOR {
      auto z = load(d, x, at);
      if (bias != nullptr) z = hn::Add(z, load(d, bias, at));
      store(d, hn::Mul(z, gelu_gate(d, z)), y, at);
    });
  }
}

// gelu'(z) = s + z s (1 − s) (2u)',  (2u)' = 2 √(2/π) (1 + 3 · 0.044715 z²)
template <class In>
void bias_gelu_backward(const BiasGelu& p, int64_t begin, int64_t end, void* d_bias_any) {
  using Real = RealOf<In>;
  const VectorTag<In> d;
  const auto* bias = static_cast<const In*>(p.bias_c);
  auto* d_bias = static_cast<Real*>(d_bias_any);
  if (d_bias != nullptr) std::fill_n(d_bias, p.columns, Real(0));
  const auto one = hn::Set(d, Real(1));
  const auto linear = hn::Set(d, Real(2 * 0.79788456080286535588)),
             quadratic = hn::Set(d, Real(6 * 0.79788456080286535588 * 0.044715));
  for (int64_t t = begin; t < end; ++t) {
    const In *x = static_cast<const In*>(p.x) + t * p.ld_x, *dy = static_cast<const In*>(p.dy) + t * p.ld_y;
    In* dx = static_cast<In*>(p.dx) + t * p.ld_x;
    walk(d, p.columns, [&](auto at) LONGHAUL_VECTOR {
      auto z = load(d, x, at);
      if (bias != nullptr) z = hn::Add(z, load(d, bias, at));
      const auto s = gelu_gate(d, z), inner = hn::MulAdd(quadratic, hn::Mul(z, z), linear);
      const auto slope = hn::Mul(s, hn::MulAdd(hn::Mul(z, hn::Sub(one, s)), inner, one));
      const auto dz = hn::Mul(load(d, dy, at), slope);
      store(d, dz, dx, at);
      if (d_bias != nullptr) store(d, hn::Add(load(d, d_bias, at), dz), d_bias, at);
    });
  }
}

void silu_any(Storage storage, const void* x, void* y, int64_t begin, int64_t end) {
  with_storage(storage, [&](auto in) HWY_ATTR { silu<decltype(in)>(x, y, begin, end); });
}
void silu_backward_any(const SiluBackward& p, int64_t begin, int64_t end) {
  with_storage(p.storage, [&](auto in) HWY_ATTR { silu_backward<decltype(in)>(p, begin, end); });
}
void swiglu_forward_any(const Swiglu& p, int64_t begin, int64_t end) {
  with_storage(p.storage, [&](auto in) HWY_ATTR { swiglu_forward<decltype(in)>(p, begin, end); });
}
void swiglu_backward_any(const Swiglu& p, int64_t begin, int64_t end) {
  with_storage(p.storage, [&](auto in) HWY_ATTR { swiglu_backward<decltype(in)>(p, begin, end); });
}
void bias_gelu_forward_any(const BiasGelu& p, int64_t begin, int64_t end) {
  with_storage(p.storage, [&](auto in) HWY_ATTR { bias_gelu_forward<decltype(in)>(p, begin, end); });
}
void bias_gelu_backward_any(const BiasGelu& p, int64_t begin, int64_t end, void* d_bias) {
  with_storage(p.storage, [&](auto in) HWY_ATTR { bias_gelu_backward<decltype(in)>(p, begin, end, d_bias); });
}

}  // namespace HWY_NAMESPACE
}  // namespace longhaul::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longhaul::kernels {

void silu_forward(Storage storage, const void* x, void* y, int64_t begin, int64_t end) {
  LONGHAUL_CHOOSE(silu_any)(storage, x, y, begin, end);
}
void silu_backward_rows(const SiluBackward& p, int64_t begin, int64_t end) {
  LONGHAUL_CHOOSE(silu_backward_any)(p, begin, end);
}
void swiglu_forward_rows(const Swiglu& p, int64_t begin, int64_t end) {
  LONGHAUL_CHOOSE(swiglu_forward_any)(p, begin, end);
}
void swiglu_backward_rows(const Swiglu& p, int64_t begin, int64_t end) {
  LONGHAUL_CHOOSE(swiglu_backward_any)(p, begin, end);
}
void bias_gelu_forward_rows(const BiasGelu& p, int64_t begin, int64_t end) {
  LONGHAUL_CHOOSE(bias_gelu_forward_any)(p, begin, end);
}
void bias_gelu_backward_rows(const BiasGelu& p, int64_t begin, int64_t end, void* d_bias) {
  LONGHAUL_CHOOSE(bias_gelu_backward_any)(p, begin, end, d_bias);
}

}  // namespace longhaul::kernels
#endif
