#include "kernels/scan/loops.h"

#include <limits>

#include "kernels/vector/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/scan/loops.cpp"
#include <hwy/foreach_target.h>
#include "kernels/vector/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels {
namespace HWY_NAMESPACE {

// Row t of a matrix, from channel `first` on; null stays null.
template <class Out>
HWY_INLINE Out* row_of(void* data, int64_t t, int64_t ld, int64_t first) {
  return data == nullptr ? nullptr : static_cast<Out*>(data) + t * ld + first;
}
template <class Out>
HWY_INLINE const Out* row_of(const void* data, int64_t t, int64_t ld, int64_t first) {
  return data == nullptr ? nullptr : static_cast<const Out*>(data) + t * ld + first;
}

template <class In>
void sum(const ScanRange& r, const DecayedSumLoops& p) {
  using Real = RealOf<In>;
  const VectorTag<In> d;
  const int64_t count = r.last - r.first;
  Real* const state = row_of<Real>(p.final, 0, 0, r.first);
  const Real* const initial = row_of<Real>(p.initial, 0, 0, r.first);
  walk(d, count, [&](auto at) LONGHAUL_VECTOR {
    store(d, initial != nullptr ? load(d, initial, at) : hn::Zero(d), state, at);
  });
  for (int64_t t = r.begin; t < r.end; ++t) {
    const Real* a = row_of<Real>(p.a, t, r.channels, r.first);
    const In* u = row_of<In>(p.u, t, r.ld_in, r.first);
    In* h = row_of<In>(p.h, t, r.channels, r.first);
    walk(d, count, [&](auto at) LONGHAUL_VECTOR {
      const auto next = hn::MulAdd(load(d, a, at), load(d, state, at), load(d, u, at));
      store(d, next, state, at);
      store(d, next, h, at);
    });
  }
}

// dh_t of all that reads h_t: du_t = dh_t, da_t = dh_t h_{t−1}, and a_t dh_t goes to the token before.
template <class In>
void sum_gradient(const ScanRange& r, const DecayedSumLoops& p) {
  using Real = RealOf<In>;
  const VectorTag<In> d;
  const int64_t count = r.last - r.first;
  Real* const running = row_of<Real>(p.d_initial, 0, 0, r.first);
  const Real *const d_final = row_of<Real>(p.d_final, 0, 0, r.first), *const initial = row_of<Real>(
                                                                          p.initial, 0, 0, r.first);
  walk(d, count, [&](auto at) LONGHAUL_VECTOR {
    store(d, d_final != nullptr ? load(d, d_final, at) : hn::Zero(d), running, at);
  });
  for (int64_t t = r.end; t-- > r.begin;) {
    const Real* a = row_of<Real>(p.a, t, r.channels, r.first);
    const In *dh = row_of<In>(p.dh, t, r.channels, r.first),
             *before = row_of<In>(p.h, t - 1, r.channels, r.first);
    In* du = row_of<In>(p.du, t, r.channels, r.first);
    Real* da = row_of<Real>(p.da, t, r.channels, r.first);
    walk(d, count, [&](auto at) LONGHAUL_VECTOR {
      const auto slope = hn::Add(load(d, running, at), load(d, dh, at));
      store(d, slope, du, at);
      const auto previous = t > r.begin          ? load(d, before, at)
                            : initial != nullptr ? load(d, initial, at)
                                                 : hn::Zero(d);
      store(d, hn::Mul(slope, previous), da, at);
      store(d, hn::Mul(slope, load(d, a, at)), running, at);
    });
  }
}

template <class In>
void softmax(const ScanRange& r, const CumulativeSoftmaxLoops& p) {
  using Real = RealOf<In>;
  const VectorTag<In> d;
  const int64_t count = r.last - r.first;
  const auto nothing = hn::Set(d, -std::numeric_limits<Real>::infinity());
  Real* const running = row_of<Real>(p.final, 0, 0, r.first);
  const Real* const initial = row_of<Real>(p.initial, 0, 0, r.first);
  walk(d, count, [&](auto at) LONGHAUL_VECTOR {
    store(d, initial != nullptr ? load(d, initial, at) : nothing, running, at);
  });
  for (int64_t t = r.begin; t < r.end; ++t) {
    const In* x = row_of<In>(p.x, t, r.ld_in, r.first);
    In* k = row_of<In>(p.k, t, r.channels, r.first);
    Real* g = row_of<Real>(p.g, t, r.channels, r.first);
    walk(d, count, [&](auto at) LONGHAUL_VECTOR {
      const auto before = load(d, running, at), logit = load(d, x, at), most = hn::Max(before, logit);
      const auto far = exponential(d, hn::Sub(hn::Min(before, logit), most));
      const auto z = hn::IfThenElse(hn::Eq(before, nothing), logit, hn::Add(most, hn::Log1p(d, far)));
      store(d, exponential(d, hn::Sub(logit, z)), k, at);
      store(d, hn::IfThenElse(hn::Eq(before, nothing), hn::Zero(d), hn::Min(hn::Sub(before, z), hn::Zero(d))),
            g, at);
      store(d, z, running, at);
    });
  }
}

// r_t = ∂/∂z_t in all: −k_t dk_t − dg_t of the token itself, dg_{t+1} + e^{g_{t+1}} r_{t+1} of the next.
template <class In>
void softmax_gradient(const ScanRange& r, const CumulativeSoftmaxLoops& p) {
  using Real = RealOf<In>;
  const VectorTag<In> d;
  const int64_t count = r.last - r.first;
  const auto one = hn::Set(d, Real(1)), nothing = hn::Set(d, -std::numeric_limits<Real>::infinity());
  // what comes to z_t from the tokens behind it
  Real* const running = row_of<Real>(p.d_initial, 0, 0, r.first);
  const Real *const d_final = row_of<Real>(p.d_final, 0, 0, r.first), *const initial = row_of<Real>(
                                                                          p.initial, 0, 0, r.first);
  walk(d, count, [&](auto at) LONGHAUL_VECTOR {
    store(d, d_final != nullptr ? load(d, d_final, at) : hn::Zero(d), running, at);
  });
  for (int64_t t = r.end; t-- > r.begin;) {
    const Real *g = row_of<Real>(static_cast<const void*>(p.g), t, r.channels, r.first),
               *dg = row_of<Real>(p.dg, t, r.channels, r.first);
    const In* dk = row_of<In>(p.dk, t, r.channels, r.first);
    In* dx = row_of<In>(p.dx, t, r.channels, r.first);
    walk(d, count, [&](auto at) LONGHAUL_VECTOR {
      const auto log_decay = load(d, g, at);
      auto k = hn::Neg(hn::Expm1(d, log_decay)), d_decay = load(d, dg, at), decay = hn::Sub(one, k);
      if (t == r.begin) {
        const auto fresh = hn::Eq(initial != nullptr ? load(d, initial, at) : nothing, nothing);
        k = hn::IfThenElse(fresh, one, k);
        d_decay = hn::IfThenZeroElse(fresh, d_decay);
        decay = hn::IfThenZeroElse(fresh, decay);
      }
      const auto own = hn::Mul(k, load(d, dk, at));
      const auto total = hn::Sub(hn::Sub(load(d, running, at), d_decay), own);
      store(d, hn::MulAdd(k, total, own), dx, at);
      store(d, hn::MulAdd(decay, total, d_decay), running, at);
    });
  }
}

void sum_any(const ScanRange& r, const DecayedSumLoops& p) {
  with_storage(r.storage, [&](auto in) HWY_ATTR { sum<decltype(in)>(r, p); });
}
void sum_gradient_any(const ScanRange& r, const DecayedSumLoops& p) {
  with_storage(r.storage, [&](auto in) HWY_ATTR { sum_gradient<decltype(in)>(r, p); });
}
void softmax_any(const ScanRange& r, const CumulativeSoftmaxLoops& p) {
  with_storage(r.storage, [&](auto in) HWY_ATTR { softmax<decltype(in)>(r, p); });
}
void softmax_gradient_any(const ScanRange& r, const CumulativeSoftmaxLoops& p) {
  with_storage(r.storage, [&](auto in) HWY_ATTR { softmax_gradient<decltype(in)>(r, p); });
}

}  // namespace HWY_NAMESPACE
}  // namespace longhaul::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longhaul::kernels {

void decayed_sum_range(const ScanRange& r, const DecayedSumLoops& p) { LONGHAUL_CHOOSE(sum_any)(r, p); }
void decayed_sum_gradient_range(const ScanRange& r, const DecayedSumLoops& p) {
  LONGHAUL_CHOOSE(sum_gradient_any)(r, p);
}
void cumulative_softmax_range(const ScanRange& r, const CumulativeSoftmaxLoops& p) {
  LONGHAUL_CHOOSE(softmax_any)(r, p);
}
void cumulative_softmax_gradient_range(const ScanRange& r, const CumulativeSoftmaxLoops& p) {
  LONGHAUL_CHOOSE(softmax_gradient_any)(r, p);
}

}  // namespace longhaul::kernels
#endif
