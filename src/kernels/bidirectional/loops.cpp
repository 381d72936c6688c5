#include "kernels/bidirectional/loops.h"

#include <limits>

#include "kernels/vector/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/bidirectional/loops.cpp"
#include <hwy/foreach_target.h>
#include "kernels/vector/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels {
namespace HWY_NAMESPACE {

// body(at, row) for each token: the tokens outside, so that rows are read whole.
template <class In, class Body>
HWY_INLINE void over_tokens(const SoftmaxRange& r, const In* x, int64_t ld, const Body& body) {
  const VectorTag<In> d;
  for (int64_t t = r.begin; t < r.end; ++t) {
    const In* const row = x + t * ld + r.first;
    walk(d, r.last - r.first, [&](auto at) LONGHAUL_VECTOR { body(at, row); });
  }
}

template <class In>
void softmax_forward(const SoftmaxRange& r, const In* x, In* k) {
  using Real = RealOf<In>;
  const VectorTag<In> d;
  HWY_ALIGN Real most[kSoftmaxChannels];
  HWY_ALIGN Real sum[kSoftmaxChannels];
  walk(d, r.last - r.first, [&](auto at) LONGHAUL_VECTOR {
    store(d, hn::Set(d, -std::numeric_limits<Real>::infinity()), most, at);
    store(d, hn::Zero(d), sum, at);
  });
  over_tokens(r, x, r.ld_in, [&](auto at, const In* row) LONGHAUL_VECTOR {
    store(d, hn::Max(load(d, most, at), load(d, row, at)), most, at);
  });
  over_tokens(r, x, r.ld_in, [&](auto at, const In* row) LONGHAUL_VECTOR {
    store(d, hn::Add(load(d, sum, at), exponential(d, hn::Sub(load(d, row, at), load(d, most, at)))), sum,
          at);
  });
  walk(d, r.last - r.first,
       [&](auto at) LONGHAUL_VECTOR { store(d, hn::Div(hn::Set(d, Real(1)), load(d, sum, at)), sum, at); });
  for (int64_t t = r.begin; t < r.end; ++t) {
    const In* const row = x + t * r.ld_in + r.first;
    In* const out = k + t * r.channels + r.first;
    walk(d, r.last - r.first, [&](auto at) LONGHAUL_VECTOR {
      store(d, hn::Mul(exponential(d, hn::Sub(load(d, row, at), load(d, most, at))), load(d, sum, at)), out,
            at);
    });
  }
}

// dx = k (dk − Σ k dk)
template <class In>
void softmax_backward(const SoftmaxRange& r, const In* k, const In* dk, In* dx) {
  using Real = RealOf<In>;
  const VectorTag<In> d;
  HWY_ALIGN Real mean[kSoftmaxChannels];
  walk(d, r.last - r.first, [&](auto at) LONGHAUL_VECTOR { store(d, hn::Zero(d), mean, at); });
  for (int64_t t = r.begin; t < r.end; ++t) {
    const In *const row = k + t * r.channels + r.first, *const slope = dk + t * r.channels + r.first;
    walk(d, r.last - r.first, [&](auto at) LONGHAUL_VECTOR {
      store(d, hn::MulAdd(load(d, row, at), load(d, slope, at), load(d, mean, at)), mean, at);
    });
  }
  for (int64_t t = r.begin; t < r.end; ++t) {
    const In *const row = k + t * r.channels + r.first, *const slope = dk + t * r.channels + r.first;
    In* const out = dx + t * r.channels + r.first;
    walk(d, r.last - r.first, [&](auto at) LONGHAUL_VECTOR {
      store(d, hn::Mul(load(d, row, at), hn::Sub(load(d, slope, at), load(d, mean, at))), out, at);
    });
  }
}

void softmax_forward_any(const SoftmaxRange& r, const void* x, void* k) {
  with_storage(r.storage, [&](auto in) HWY_ATTR {
    using In = decltype(in);
    softmax_forward(r, static_cast<const In*>(x), static_cast<In*>(k));
  });
}
void softmax_backward_any(const SoftmaxRange& r, const void* k, const void* dk, void* dx) {
  with_storage(r.storage, [&](auto in) HWY_ATTR {
    using In = decltype(in);
    softmax_backward(r, static_cast<const In*>(k), static_cast<const In*>(dk), static_cast<In*>(dx));
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace longhaul::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longhaul::kernels {

void segment_softmax_range(const SoftmaxRange& r, const void* x, void* k) {
  LONGHAUL_CHOOSE(softmax_forward_any)(r, x, k);
}
void segment_softmax_gradient_range(const SoftmaxRange& r, const void* k, const void* dk, void* dx) {
  LONGHAUL_CHOOSE(softmax_backward_any)(r, k, dk, dx);
}

}  // namespace longhaul::kernels
#endif
