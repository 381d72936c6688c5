// Exact arithmetic on what a model wrote: whole numbers, + - * / and parentheses, and nothing else; nothing is evaluated but these. Results are fractions;
// what does not fit in 64 bits has no value.
//
//   const std::optional<Arithmetic> read = read_arithmetic("(8 - 4) * 6");   // value 24, numbers 8, 4, 6
//
// A sign in front of a number or a parenthesis is refused. Nesting of at most 32, 4,096 characters. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace longhaul::puzzles {

struct Fraction {
  int64_t above = 0, below = 1;  // below > 0, without common factors
  bool operator==(const Fraction&) const = default;
};

// None: division by zero, or a number that does not fit.
std::optional<Fraction> added(const Fraction& a, const Fraction& b);
std::optional<Fraction> subtracted(const Fraction& a, const Fraction& b);
std::optional<Fraction> multiplied(const Fraction& a, const Fraction& b);
std::optional<Fraction> divided(const Fraction& a, const Fraction& b);

struct Arithmetic {
  Fraction value;
  std::vector<int64_t> numbers;  // in the order in which they stand
};
std::optional<Arithmetic> read_arithmetic(std::string_view text);

}  // namespace longhaul::puzzles
