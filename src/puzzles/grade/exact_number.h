// Exact numbers of answers in mathematics: sums of fractions times square roots times powers of letters (π
// and other names among them). Two are equal where they are the same sum; nothing is rounded, and what does
// not fit in 64 bits, or cannot be written so, has no value.
//
//   (1/2)·√8 + x²   is   √2 + x²
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "puzzles/engine/answers/rational.h"

namespace longhaul::puzzles {

struct ExactTerm {
  int64_t root = 1;                       // without square factors
  std::map<std::string, int64_t> powers;  // of letters; never 0
  auto operator<=>(const ExactTerm&) const = default;
};

class ExactNumber {
 public:
  ExactNumber() = default;  // 0
  static ExactNumber of(const Rational& fraction);
  static ExactNumber letter(const std::string& name);

  bool operator==(const ExactNumber&) const = default;
  std::optional<Rational> fraction() const;  // none: it is none
  const std::map<ExactTerm, Rational>& terms() const { return terms_; }

  std::optional<ExactNumber> plus(const ExactNumber& other) const;
  std::optional<ExactNumber> times(const ExactNumber& other) const;
  // a single term, or two of which roots can be taken away
  std::optional<ExactNumber> over(const ExactNumber& other) const;
  std::optional<ExactNumber> power(int64_t exponent) const;  // −32 to 32
  std::optional<ExactNumber> square_root() const;            // of a fraction that is not negative
  std::optional<ExactNumber> negative() const;

 private:
  bool add(const ExactTerm& term, const Rational& factor);
  std::map<ExactTerm, Rational> terms_;  // factors are not 0
};

}  // namespace longhaul::puzzles
