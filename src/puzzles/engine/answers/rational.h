// Rational: exact fractions in 64 bits. What does not fit has no value; nothing wraps around and nothing is
// rounded.
//
//   const std::optional<Rational> half = divided({1}, {2});      // 1/2
//
// Pure.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

namespace longhaul::puzzles {

struct Rational {
  int64_t above = 0, below = 1;  // below > 0, without common factors
  bool operator==(const Rational&) const = default;
  std::strong_ordering operator<=>(const Rational& other) const;  // exact, whatever the size
};

// None: division by zero, or a number that does not fit.
std::optional<Rational> added(const Rational& a, const Rational& b);
std::optional<Rational> subtracted(const Rational& a, const Rational& b);
std::optional<Rational> multiplied(const Rational& a, const Rational& b);
std::optional<Rational> divided(const Rational& a, const Rational& b);

std::string text_of(const Rational& value);  // "3", "-1/2"

}  // namespace longhaul::puzzles
