// Uncertain: a number with its error, one standard deviation. Independent errors add in quadrature: relative
// ones in products and quotients, absolute ones in sums.
#pragma once

#include <cmath>

namespace longhaul::plan {

struct Uncertain {
  double value = 0, sigma = 0;
  double relative() const { return value != 0 ? sigma / std::abs(value) : 0; }
};

inline Uncertain operator+(Uncertain a, Uncertain b) {
  return {a.value + b.value, std::hypot(a.sigma, b.sigma)};
}
inline Uncertain operator*(Uncertain a, double exact) { return {a.value * exact, a.sigma * std::abs(exact)}; }
inline Uncertain operator*(Uncertain a, Uncertain b) {
  return {a.value * b.value, std::hypot(a.sigma * b.value, b.sigma * a.value)};
}
inline Uncertain operator/(Uncertain a, double exact) { return a * (1 / exact); }

}  // namespace longhaul::plan
