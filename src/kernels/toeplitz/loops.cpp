#include "kernels/toeplitz/loops.h"

#include <memory>
#include <new>

#include "kernels/vector/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/toeplitz/loops.cpp"
#include <hwy/foreach_target.h>
#include "kernels/vector/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels {
namespace HWY_NAMESPACE {

// One vector of channels at a time: its e sums lie together, in the first cache, while the tokens go by.
template <class In>
class ToeplitzVector {
 public:
  using Real = RealOf<In>;
  using D = VectorTag<In>;
  using V = hn::Vec<D>;
  static constexpr std::align_val_t kAligned{64};
  // that pass an exponential at once: its sum is read and written once for all
  static constexpr int64_t kTokens = 4;

  explicit ToeplitzVector(const ToeplitzRange& range)
      : r_(range),
        lanes_(static_cast<int64_t>(hn::Lanes(D()))),
        decay_(static_cast<const Real*>(range.decay)),
        memory_(static_cast<Real*>(
            ::operator new(sizeof(Real) * static_cast<size_t>(6 * range.exponentials * lanes_), kAligned))) {}

  template <class At>
  HWY_INLINE void forward(const ToeplitzLoops& p, At at) {
    fetch(r_.coefficient, 0, b(), at);
    for (int64_t n = 0; n < r_.documents; ++n) {
      begin(p.initial, n, s(), at);
      const int64_t end = r_.offsets[n + 1];
      int64_t t = r_.offsets[n];
      for (; t + kTokens <= end; t += kTokens) tokens<kTokens>(p, t, at);
      for (; t < end; ++t) tokens<1>(p, t, at);
      leave(p.final, n, s(), at);
    }
  }

  // w_t = ∂/∂S_t = B dy_t + λ w_{t+1}, and dx_t = Σ_j w_t.
  template <class At>
  HWY_INLINE void of_inputs(const ToeplitzGradientLoops& p, At at) {
    fetch(r_.coefficient, 0, b(), at);
    for (int64_t n = 0; n < r_.documents; ++n) {
      begin(p.d_final, n, s(), at);
      const int64_t first = r_.offsets[n];
      int64_t t = r_.offsets[n + 1];
      for (; t - kTokens >= first; t -= kTokens) tokens_back<kTokens>(p, t, at);
      for (; t > first; --t) tokens_back<1>(p, t, at);
      leave(p.d_initial, n, s(), at);
    }
  }

  // U_t = ∂S_t/∂ log λ = λ (U_{t−1} + S_{t−1}): dB = Σ dy S, d log λ = Σ_c (B Σ dy U + d_final U).
  template <class At>
  HWY_INLINE void of_parameters(const ToeplitzGradientLoops& p, At at) {
    const D d;
    fetch(r_.coefficient, 0, b(), at);
    for (int64_t i = 0; i < 3 * r_.exponentials; ++i) hn::Store(hn::Zero(d), d, dsum() + i * lanes_);
    for (int64_t n = 0; n < r_.documents; ++n) {
      begin(p.initial, n, s(), at);
      begin(nullptr, n, u(), at);
      const int64_t end = r_.offsets[n + 1];
      int64_t t = r_.offsets[n];
      for (; t + kTokens <= end; t += kTokens) tokens_sums<kTokens>(p, t, at);
      for (; t < end; ++t) tokens_sums<1>(p, t, at);
      if (p.d_final == nullptr) continue;
      const Real* const rows =
          static_cast<const Real*>(p.d_final) + n * r_.exponentials * r_.channels + r_.first;
      for (int64_t j = 0; j < r_.exponentials; ++j) {
        Real* const sum = ends() + j * lanes_;
        hn::Store(
            hn::MulAdd(load(d, rows + j * r_.channels, at), hn::Load(d, u() + j * lanes_), hn::Load(d, sum)),
            d, sum);
      }
    }
    Real* const d_coefficient = static_cast<Real*>(p.d_coefficient) + r_.first;
    Real* const d_log_decay = static_cast<Real*>(p.d_log_decay);
    for (int64_t j = 0; j < r_.exponentials; ++j) {
      store(d, hn::Load(d, dsum() + j * lanes_), d_coefficient + j * r_.channels, at);
      const V both = hn::MulAdd(hn::Load(d, b() + j * lanes_), hn::Load(d, usum() + j * lanes_),
                                hn::Load(d, ends() + j * lanes_));
      d_log_decay[j] += sum_of_lanes(d, only(d, both, at));
    }
  }

 private:
  Real* part(int64_t i) const { return memory_.get() + i * r_.exponentials * lanes_; }
  Real* b() const { return part(0); }
  Real* s() const { return part(1); }
  Real* u() const { return part(2); }
  Real* dsum() const { return part(3); }
  Real* usum() const { return part(4); }
  Real* ends() const { return part(5); }

  // Row j of matrix n of [documents, e, channels].
  template <class At>
  HWY_INLINE void fetch(const void* from, int64_t n, Real* to, At at) const {
    const D d;
    const Real* const rows = static_cast<const Real*>(from) + n * r_.exponentials * r_.channels + r_.first;
    for (int64_t j = 0; j < r_.exponentials; ++j)
      hn::Store(load(d, rows + j * r_.channels, at), d, to + j * lanes_);
  }
  template <class At>
  HWY_INLINE void begin(const void* from, int64_t n, Real* to, At at) const {
    if (from != nullptr) return fetch(from, n, to, at);
    const D d;
    for (int64_t j = 0; j < r_.exponentials; ++j) hn::Store(hn::Zero(d), d, to + j * lanes_);
  }
  template <class At>
  HWY_INLINE void leave(void* to, int64_t n, const Real* from, At at) const {
    if (to == nullptr) return;
    const D d;
    Real* const rows = static_cast<Real*>(to) + n * r_.exponentials * r_.channels + r_.first;
    for (int64_t j = 0; j < r_.exponentials; ++j)
      store(d, hn::Load(d, from + j * lanes_), rows + j * r_.channels, at);
  }
  template <class T>
  HWY_INLINE T* row(T* data, int64_t t, int64_t ld) const {
    return data + t * ld + r_.first;
  }

  template <int64_t kCount, class At>
  HWY_INLINE void tokens(const ToeplitzLoops& p, int64_t t, At at) const {
    const D d;
    V x[kCount], y[kCount];
    for (int64_t i = 0; i < kCount; ++i) {
      x[i] = load(d, row(static_cast<const In*>(p.x), t + i, r_.ld_in), at);
      y[i] = hn::Zero(d);
    }
    for (int64_t j = 0; j < r_.exponentials; ++j) {
      const V l = hn::Set(d, decay_[j]), weight = hn::Load(d, b() + j * lanes_);
      V sum = hn::Load(d, s() + j * lanes_);
      for (int64_t i = 0; i < kCount; ++i) {
        sum = hn::MulAdd(l, sum, x[i]);
        y[i] = hn::MulAdd(weight, sum, y[i]);
      }
      hn::Store(sum, d, s() + j * lanes_);
    }
    for (int64_t i = 0; i < kCount; ++i) store(d, y[i], row(static_cast<In*>(p.y), t + i, r_.channels), at);
  }

  // Tokens t − 1, …, t − kCount.
  template <int64_t kCount, class At>
  HWY_INLINE void tokens_back(const ToeplitzGradientLoops& p, int64_t t, At at) const {
    const D d;
    V dy[kCount], dx[kCount];
    for (int64_t i = 0; i < kCount; ++i) {
      dy[i] = load(d, row(static_cast<const In*>(p.dy), t - 1 - i, r_.channels), at);
      dx[i] = hn::Zero(d);
    }
    for (int64_t j = 0; j < r_.exponentials; ++j) {
      const V l = hn::Set(d, decay_[j]), weight = hn::Load(d, b() + j * lanes_);
      V later = hn::Load(d, s() + j * lanes_);
      for (int64_t i = 0; i < kCount; ++i) {
        const V w = hn::MulAdd(weight, dy[i], later);
        dx[i] = hn::Add(dx[i], w);
        later = hn::Mul(l, w);
      }
      hn::Store(later, d, s() + j * lanes_);
    }
    for (int64_t i = 0; i < kCount; ++i)
      store(d, dx[i], row(static_cast<In*>(p.dx), t - 1 - i, r_.channels), at);
  }

  template <int64_t kCount, class At>
  HWY_INLINE void tokens_sums(const ToeplitzGradientLoops& p, int64_t t, At at) const {
    const D d;
    V x[kCount], dy[kCount];
    for (int64_t i = 0; i < kCount; ++i) {
      x[i] = load(d, row(static_cast<const In*>(p.x), t + i, r_.ld_in), at);
      dy[i] = load(d, row(static_cast<const In*>(p.dy), t + i, r_.channels), at);
    }
    for (int64_t j = 0; j < r_.exponentials; ++j) {
      const int64_t k = j * lanes_;
      const V l = hn::Set(d, decay_[j]);
      V sum = hn::Load(d, s() + k), slope = hn::Load(d, u() + k), to_b = hn::Load(d, dsum() + k),
        to_u = hn::Load(d, usum() + k);
      for (int64_t i = 0; i < kCount; ++i) {
        slope = hn::Mul(l, hn::Add(slope, sum));
        sum = hn::MulAdd(l, sum, x[i]);
        to_b = hn::MulAdd(dy[i], sum, to_b);
        to_u = hn::MulAdd(dy[i], slope, to_u);
      }
      hn::Store(sum, d, s() + k);
      hn::Store(slope, d, u() + k);
      hn::Store(to_b, d, dsum() + k);
      hn::Store(to_u, d, usum() + k);
    }
  }

  const ToeplitzRange& r_;
  int64_t lanes_;
  const Real* decay_;
  struct Free {
    void operator()(Real* memory) const { ::operator delete(memory, kAligned); }
  };
  std::unique_ptr<Real, Free> memory_;
};

void forward_any(const ToeplitzRange& r, const ToeplitzLoops& p) {
  with_storage(r.storage, [&](auto in) HWY_ATTR {
    using In = decltype(in);
    ToeplitzVector<In> vector(r);
    walk(VectorTag<In>(), r.last - r.first, [&](auto at) LONGHAUL_VECTOR { vector.forward(p, at); });
  });
}

void gradient_any(const ToeplitzRange& r, const ToeplitzGradientLoops& p) {
  with_storage(r.storage, [&](auto in) HWY_ATTR {
    using In = decltype(in);
    ToeplitzVector<In> vector(r);
    walk(VectorTag<In>(), r.last - r.first, [&](auto at) LONGHAUL_VECTOR {
      if (p.dx != nullptr) vector.of_inputs(p, at);
      if (p.d_coefficient != nullptr) vector.of_parameters(p, at);
    });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace longhaul::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longhaul::kernels {

void toeplitz_range(const ToeplitzRange& r, const ToeplitzLoops& p) { LONGHAUL_CHOOSE(forward_any)(r, p); }
void toeplitz_gradient_range(const ToeplitzRange& r, const ToeplitzGradientLoops& p) {
  LONGHAUL_CHOOSE(gradient_any)(r, p);
}

}  // namespace longhaul::kernels
#endif
