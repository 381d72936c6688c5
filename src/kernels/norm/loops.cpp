#include "kernels/norm/loops.h"

#include <algorithm>
#include <cmath>

#include "kernels/scratch.h"
#include "kernels/vector/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/norm/loops.cpp"
#include <hwy/foreach_target.h>
#include "kernels/vector/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels {
namespace HWY_NAMESPACE {

template <class In, bool kCentred>
void forward_row(const NormForward& p, int64_t t) {
  using Real = RealOf<In>;
  const VectorTag<In> d;
  const int64_t n = p.channels;
  const auto *x = static_cast<const In*>(p.x_tc) + t * n,
             *branch = static_cast<const In*>(p.branch_tc) + t * n;
  const In* z = x;
  auto sum = hn::Zero(d), squares = hn::Zero(d);
  if (p.branch_tc != nullptr) {
    In* joined = static_cast<In*>(p.joined_tc) + t * n;
    const auto alpha = hn::Set(d, static_cast<Real>(p.alpha)), beta = hn::Set(d, static_cast<Real>(p.beta));
    walk(d, n, [&](auto at) LONGHAUL_VECTOR {
      // Statistics of what is stored, which is what backward will see.
      const auto v = as_stored<In>(d, hn::MulAdd(alpha, load(d, x, at), hn::Mul(beta, load(d, branch, at))));
      store(d, v, joined, at);
      if constexpr (kCentred)
        sum = hn::Add(sum, v);
      else
        squares = hn::MulAdd(v, v, squares);
    });
    z = joined;
  } else {
    walk(d, n, [&](auto at) LONGHAUL_VECTOR {
      const auto v = load(d, x, at);
      if constexpr (kCentred)
        sum = hn::Add(sum, v);
      else
        squares = hn::MulAdd(v, v, squares);
    });
  }
  Real mean = 0;
  if constexpr (kCentred) {
    // Around the mean in a second pass over the row, which is in cache: no difference of large sums.
    mean = sum_of_lanes(d, sum) / static_cast<Real>(n);
    static_cast<Real*>(p.mean_t)[t] = mean;
    const auto m = hn::Set(d, mean);
    walk(d, n, [&](auto at) LONGHAUL_VECTOR {
      const auto v = only(d, hn::Sub(load(d, z, at), m), at);
      squares = hn::MulAdd(v, v, squares);
    });
  }
  const Real scale =
      Real(1) / std::sqrt(sum_of_lanes(d, squares) / static_cast<Real>(n) + static_cast<Real>(p.eps));
  static_cast<Real*>(p.scale_t)[t] = scale;

  const auto *w = static_cast<const Real*>(p.weight_c), *bias = static_cast<const Real*>(p.bias_c);
  const In* gate = static_cast<const In*>(p.gate_tc) + t * n;
  In* y = static_cast<In*>(p.y_tc) + t * n;
  const auto m = hn::Set(d, mean), r = hn::Set(d, scale);
  const auto normed = [&](auto at) LONGHAUL_VECTOR {
    const auto v = load(d, z, at);
    return hn::Mul(hn::Mul(kCentred ? hn::Sub(v, m) : v, r), load(d, w, at));
  };
  if (p.gate_tc != nullptr) {
    walk(d, n, [&](auto at) LONGHAUL_VECTOR {
      store(d, hn::Mul(normed(at), sigmoid(d, load(d, gate, at))), y, at);
    });
  } else if (p.bias_c != nullptr) {
    walk(d, n, [&](auto at) LONGHAUL_VECTOR { store(d, hn::Add(normed(at), load(d, bias, at)), y, at); });
  } else {
    walk(d, n, [&](auto at) LONGHAUL_VECTOR { store(d, normed(at), y, at); });
  }
}

// n = (z − mean) r,  dn = dy w [· sigmoid(gate)],  dz = r (dn − n mean(dn n) − [mean(dn)]) + d_joined
template <class In>
void backward_row(const NormBackward& p, int64_t t, RealOf<In>* dn_row, RealOf<In>* dw, RealOf<In>* db) {
  using Real = RealOf<In>;
  const VectorTag<In> d;
  const int64_t n = p.channels, row = t * n;
  const auto *z = static_cast<const In*>(p.z_tc) + row, *dy = static_cast<const In*>(p.dy_tc) + row;
  const auto* w = static_cast<const Real*>(p.weight_c);
  const auto r = hn::Set(d, static_cast<const Real*>(p.scale_t)[t]);
  const auto m = hn::Set(d, p.centred ? static_cast<const Real*>(p.mean_t)[t] : Real(0));
  auto dot = hn::Zero(d), sum = hn::Zero(d);
  const auto collect = [&](auto at, auto normed, auto g) LONGHAUL_VECTOR {
    const auto dn = hn::Mul(g, load(d, w, at));
    store(d, hn::MulAdd(g, normed, load(d, dw, at)), dw, at);
    store(d, dn, dn_row, at);
    dot = hn::MulAdd(dn, normed, dot);
    sum = hn::Add(sum, dn);
  };
  if (p.gate_tc != nullptr) {
    const In* gate = static_cast<const In*>(p.gate_tc) + row;
    In* d_gate = static_cast<In*>(p.d_gate_tc) + row;
    const auto one = hn::Set(d, Real(1));
    walk(d, n, [&](auto at) LONGHAUL_VECTOR {
      const auto normed = hn::Mul(hn::Sub(load(d, z, at), m), r), g = load(d, dy, at),
                 s = sigmoid(d, load(d, gate, at));
      const auto opened = hn::Mul(g, s);
      store(d, hn::Mul(hn::Mul(opened, hn::Sub(one, s)), hn::Mul(normed, load(d, w, at))), d_gate, at);
      collect(at, normed, opened);
    });
  } else {
    walk(d, n, [&](auto at) LONGHAUL_VECTOR {
      const auto g = load(d, dy, at);
      if (db != nullptr) store(d, hn::Add(load(d, db, at), g), db, at);
      collect(at, hn::Mul(hn::Sub(load(d, z, at), m), r), g);
    });
  }
  const auto mean_dot = hn::Set(d, sum_of_lanes(d, dot) / static_cast<Real>(n));
  const auto mean_dn = hn::Set(d, p.centred ? sum_of_lanes(d, sum) / static_cast<Real>(n) : Real(0));
  const auto* d_joined = static_cast<const In*>(p.d_joined_tc) + row;
  auto *dx = static_cast<In*>(p.dx_tc) + row, *d_branch = static_cast<In*>(p.d_branch_tc) + row;
  const auto alpha = hn::Set(d, static_cast<Real>(p.alpha)), beta = hn::Set(d, static_cast<Real>(p.beta));
  walk(d, n, [&](auto at) LONGHAUL_VECTOR {
    const auto normed = hn::Mul(hn::Sub(load(d, z, at), m), r);
    auto dz = hn::Mul(r, hn::Sub(hn::NegMulAdd(normed, mean_dot, load(d, dn_row, at)), mean_dn));
    if (p.d_joined_tc != nullptr) dz = hn::Add(dz, load(d, d_joined, at));
    store(d, hn::Mul(alpha, dz), dx, at);
    if (p.d_branch_tc != nullptr) store(d, hn::Mul(beta, dz), d_branch, at);
  });
}

template <class In>
void backward_rows(const NormBackward& p, int64_t begin, int64_t end, void* dw_c, void* db_c) {
  using Real = RealOf<In>;
  auto *dw = static_cast<Real*>(dw_c), *db = static_cast<Real*>(db_c);
  std::fill_n(dw, p.channels, Real(0));
  if (db != nullptr) std::fill_n(db, p.channels, Real(0));
  static thread_local Scratch scratch;
  Real* const dn_row = scratch.take<Real>(p.channels);
  for (int64_t t = begin; t < end; ++t) backward_row<In>(p, t, dn_row, dw, db);
}

void forward_rows_any(const NormForward& p, int64_t begin, int64_t end) {
  with_storage(p.storage, [&](auto in) HWY_ATTR {
    for (int64_t t = begin; t < end; ++t)
      p.centred ? forward_row<decltype(in), true>(p, t) : forward_row<decltype(in), false>(p, t);
  });
}

void backward_rows_any(const NormBackward& p, int64_t begin, int64_t end, void* dw, void* db) {
  with_storage(p.storage, [&](auto in) HWY_ATTR { backward_rows<decltype(in)>(p, begin, end, dw, db); });
}

}  // namespace HWY_NAMESPACE
}  // namespace longhaul::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longhaul::kernels {

void norm_forward_rows(const NormForward& problem, int64_t begin, int64_t end) {
  LONGHAUL_CHOOSE(forward_rows_any)(problem, begin, end);
}

void norm_backward_rows(const NormBackward& problem, int64_t begin, int64_t end, void* dw, void* db) {
  LONGHAUL_CHOOSE(backward_rows_any)(problem, begin, end, dw, db);
}

}  // namespace longhaul::kernels
#endif
