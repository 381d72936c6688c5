// Between the passes of factored.h: updates the moving averages of a matrix's row and column means, and
// computes the factors with which its loops multiply. Serial.
#pragma once

#include <cmath>
#include <cstdint>
#include <numeric>

namespace longhaul::kernels {

// mean ← β mean + share · sums; a share of (1 − β) / count makes sums of `count` numbers means.
template <class Real>
void follow_sums(Real* mean, const double* sums, int64_t count, double beta, double share) {
  for (int64_t i = 0; i < count; ++i)
    mean[i] = static_cast<Real>(static_cast<double>(mean[i]) * beta + sums[i] * share);
}

// Together the sum of follow_sums' means, from those before: it is linear in them.
inline double followed_sum(const double* sums, int64_t count, double share) {
  return std::accumulate(sums, sums + count, 0.0) * share;
}
template <class Real>
double kept_sum(const Real* before, int64_t count, double beta) {
  return beta * std::accumulate(before, before + count, 0.0);
}

// to ← 1 / sqrt(from / divisor), or from / divisor.
template <class Real>
void prepare_divisors(const Real* from, int64_t count, double divisor, bool inverse_roots, Real* to) {
  const auto by = static_cast<Real>(divisor);
  for (int64_t i = 0; i < count; ++i) {
    const Real x = from[i] / by;
    to[i] = inverse_roots ? 1 / std::sqrt(x) : x;
  }
}

}  // namespace longhaul::kernels
