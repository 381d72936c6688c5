#include "puzzles/grade/exact_number.h"

#include <cstdlib>
#include <limits>

namespace longhaul::puzzles {
namespace {

constexpr size_t kMostTerms = 64;
constexpr int64_t kMostPower = 32;
constexpr int64_t kMostUnderRoot = 100'000'000;  // square factors are looked for one by one

// A times the root of B is the root of n; none: n is too large.
std::optional<std::pair<int64_t, int64_t>> without_squares(int64_t n) {
  if (n < 0 || n > kMostUnderRoot) return std::nullopt;
  int64_t outside = 1;
  for (int64_t factor = 2; factor * factor <= n; ++factor) {
    while (n % (factor * factor) == 0) {
      n /= factor * factor;
      outside *= factor;
    }
  }
  return std::pair(outside, n);
}

std::optional<int64_t> product(int64_t a, int64_t b) {
  int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) return std::nullopt;
  return result;
}

}  // namespace

ExactNumber ExactNumber::of(const Rational& fraction) {
  ExactNumber number;
  if (fraction.above != 0) number.terms_[{}] = fraction;
  return number;
}

ExactNumber ExactNumber::letter(const std::string& name) {
  ExactNumber number;
  number.terms_[{.powers = {{name, 1}}}] = {1, 1};
  return number;
}

std::optional<Rational> ExactNumber::fraction() const {
  if (terms_.empty()) return Rational{0, 1};
  if (terms_.size() == 1 && terms_.begin()->first == ExactTerm{}) return terms_.begin()->second;
  return std::nullopt;
}

bool ExactNumber::add(const ExactTerm& term, const Rational& factor) {
  const auto [place, is_new] = terms_.try_emplace(term, factor);
  if (!is_new) {
    const auto sum = added(place->second, factor);
    if (!sum) return false;
    place->second = *sum;
  }
  if (place->second.above == 0) terms_.erase(place);
  return terms_.size() <= kMostTerms;
}

std::optional<ExactNumber> ExactNumber::plus(const ExactNumber& other) const {
  ExactNumber sum = *this;
  for (const auto& [term, factor] : other.terms_) {
    if (!sum.add(term, factor)) return std::nullopt;
  }
  return sum;
}

std::optional<ExactNumber> ExactNumber::negative() const { return times(of({-1, 1})); }

std::optional<ExactNumber> ExactNumber::times(const ExactNumber& other) const {
  ExactNumber all;
  for (const auto& [a, factor_a] : terms_) {
    for (const auto& [b, factor_b] : other.terms_) {
      const auto under = product(a.root, b.root);
      const auto factor = multiplied(factor_a, factor_b);
      const auto root = under ? without_squares(*under) : std::nullopt;
      if (!factor || !root) return std::nullopt;
      const auto scaled = multiplied(*factor, {root->first, 1});
      if (!scaled) return std::nullopt;
      ExactTerm term{.root = root->second, .powers = a.powers};
      for (const auto& [name, exponent] : b.powers) {
        int64_t& sum = term.powers[name];
        sum += exponent;
        if (std::abs(sum) > kMostPower) return std::nullopt;
        if (sum == 0) term.powers.erase(name);
      }
      if (!all.add(term, *scaled)) return std::nullopt;
    }
  }
  return all;
}

std::optional<ExactNumber> ExactNumber::over(const ExactNumber& other) const {
  if (other.terms_.size() == 1) {
    const auto& [term, factor] = *other.terms_.begin();
    ExactNumber inverse;  // 1 / (f √r xⁿ) = √r x⁻ⁿ / (f r)
    const auto scaled = multiplied(factor, {term.root, 1});
    const auto turned = scaled ? divided({1, 1}, *scaled) : std::nullopt;
    if (!turned) return std::nullopt;
    ExactTerm of_inverse{.root = term.root};
    for (const auto& [name, exponent] : term.powers) of_inverse.powers[name] = -exponent;
    inverse.terms_[of_inverse] = *turned;
    return times(inverse);
  }
  if (other.terms_.size() != 2) return std::nullopt;
  // (a + b)(a − b) has no root left where neither square has one.
  ExactNumber conjugate = other;
  Rational& last = conjugate.terms_.rbegin()->second;
  if (last.above == std::numeric_limits<int64_t>::min()) return std::nullopt;
  last.above = -last.above;
  const auto below = other.times(conjugate);
  const auto above = times(conjugate);
  if (!below || !above || below->terms_.size() != 1) return std::nullopt;
  return above->over(*below);
}

std::optional<ExactNumber> ExactNumber::power(int64_t exponent) const {
  if (std::abs(exponent) > kMostPower) return std::nullopt;
  std::optional<ExactNumber> result = of({1, 1});
  for (int64_t i = 0; i < std::abs(exponent) && result; ++i) result = result->times(*this);
  if (result && exponent < 0) return of({1, 1}).over(*result);
  return result;
}

std::optional<ExactNumber> ExactNumber::square_root() const {
  const auto value = fraction();
  if (!value) return std::nullopt;
  const auto under = product(value->above, value->below);  // √(a/b) = √(ab) / b
  const auto root = under ? without_squares(*under) : std::nullopt;
  if (!root) return std::nullopt;
  const auto factor = divided({root->first, 1}, {value->below, 1});
  if (!factor) return std::nullopt;
  if (root->second == 0) return ExactNumber();
  ExactNumber number;
  number.terms_[{.root = root->second}] = *factor;
  return number;
}

}  // namespace longhaul::puzzles
