#include "kernels/delta_rule/loops.h"

#include <algorithm>

#include "kernels/vector/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/delta_rule/loops.cpp"
#include <hwy/foreach_target.h>
#include "kernels/vector/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels {
namespace HWY_NAMESPACE {
namespace {

using Reals = hn::ScalableTag<float>;
using Real = hn::Vec<Reals>;
constexpr Reals kReals;
// rows of a system that are solved together: so many sums hide the latency of a multiply-add
constexpr int64_t kTogether = 8;

HWY_INLINE Real all(float x) { return hn::Set(kReals, x); }

template <class At>
HWY_INLINE Real below_diagonal(Real x, int64_t i, int64_t diagonal, At at) {
  return hn::IfThenElseZero(mask_of_first(kReals, i + diagonal - at.i), x);
}

void mask_lower(const float* scores, const float* mask, int64_t ld, int64_t rows, int64_t diagonal,
                float* out) {
  for (int64_t i = 0; i < rows; ++i) {
    walk(kReals, rows, [&](auto at) LONGHAUL_VECTOR {
      Real x = load(kReals, scores + i * ld, at);
      if (mask != nullptr) x = hn::Mul(x, load(kReals, mask + i * ld, at));
      store(kReals, below_diagonal(x, i, diagonal, at), out + i * ld, at);
    });
  }
}

void mask_gradient(float* d, const float* s, const float* mask, int64_t ld, int64_t rows, int64_t diagonal,
                   float* moment) {
  for (int64_t i = 0; i < rows; ++i) {
    Real sum = hn::Zero(kReals);
    walk(kReals, rows, [&](auto at) LONGHAUL_VECTOR {
      const Real of_pair = load(kReals, d + i * ld, at);
      const Real weight = below_diagonal(hn::Mul(of_pair, load(kReals, s + i * ld, at)), i, 0, at);
      sum = hn::Add(sum, weight);
      store(kReals, hn::Sub(load(kReals, moment, at), weight), moment, at);
      store(kReals, below_diagonal(hn::Mul(of_pair, load(kReals, mask + i * ld, at)), i, diagonal, at),
            d + i * ld, at);
    });
    moment[i] += sum_of_lanes(kReals, sum);
  }
}

// Rows first … first + Rows − 1 of a system whose rows before are solved, one vector of columns. They take
// what the solved rows say from `out` of rows from … to − 1, and then one after the other.
template <int64_t Rows, bool kUpper, class At>
HWY_INLINE void solve_rows(const float* a, int64_t ld, const float* beta, int64_t first, int64_t from,
                           int64_t to, int64_t columns, float* x, float* out, At at) {
  const auto factor = [&](int64_t row, int64_t other)
                          LONGHAUL_VECTOR { return all(kUpper ? a[other * ld + row] : a[row * ld + other]); };
  Real sums[Rows];
  for (int64_t r = 0; r < Rows; ++r) sums[r] = load(kReals, x + (first + r) * columns, at);
  for (int64_t other = from; other < to; ++other) {
    const Real solved = load(kReals, out + other * columns, at);
    for (int64_t r = 0; r < Rows; ++r) sums[r] = hn::NegMulAdd(factor(first + r, other), solved, sums[r]);
  }
  for (int64_t step = 0; step < Rows; ++step) {
    const int64_t r = kUpper ? Rows - 1 - step : step;
    const Real solved = hn::Mul(all(beta[first + r]), sums[r]);
    store(kReals, sums[r], x + (first + r) * columns, at);
    store(kReals, solved, out + (first + r) * columns, at);
    for (int64_t later = step + 1; later < Rows; ++later) {
      const int64_t l = kUpper ? Rows - 1 - later : later;
      sums[l] = hn::NegMulAdd(factor(first + l, first + r), solved, sums[l]);
    }
  }
}

void solve_lower(const float* a, int64_t ld, const float* beta, int64_t rows, int64_t columns, float* x,
                 float* out) {
  walk(kReals, columns, [&](auto at) LONGHAUL_VECTOR {
    int64_t i = 0;
    for (; i + kTogether <= rows; i += kTogether)
      solve_rows<kTogether, false>(a, ld, beta, i, 0, i, columns, x, out, at);
    for (; i < rows; ++i) solve_rows<1, false>(a, ld, beta, i, 0, i, columns, x, out, at);
  });
}

void solve_upper(const float* a, int64_t ld, const float* beta, int64_t rows, int64_t columns, float* x,
                 float* out) {
  walk(kReals, columns, [&](auto at) LONGHAUL_VECTOR {
    int64_t end = rows;
    for (; end >= kTogether; end -= kTogether)
      solve_rows<kTogether, true>(a, ld, beta, end - kTogether, end, rows, columns, x, out, at);
    for (; end > 0; --end) solve_rows<1, true>(a, ld, beta, end - 1, end, rows, columns, x, out, at);
  });
}

void subtract(const float* x, const float* y, int64_t count, float* out) {
  walk(kReals, count, [&](auto at) LONGHAUL_VECTOR {
    store(kReals, hn::Sub(load(kReals, x, at), load(kReals, y, at)), out, at);
  });
}

void add_square(const float* x, int64_t ld, int64_t rows, float* out) {
  for (int64_t i = 0; i < rows; ++i) {
    walk(kReals, rows, [&](auto at) LONGHAUL_VECTOR {
      store(kReals, hn::Add(load(kReals, out + i * ld, at), load(kReals, x + i * ld, at)), out + i * ld, at);
    });
  }
}

constexpr DeltaLoops kDeltaLoops = {mask_lower,  mask_gradient, solve_lower,
                                    solve_upper, subtract,      add_square};

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace longhaul::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longhaul::kernels {

const DeltaLoops& delta_loops() { return *LONGHAUL_CHOOSE(kDeltaLoops); }

}  // namespace longhaul::kernels
#endif
