// Formulas as puzzles write them: whole numbers, x and y, parentheses, |…|, and operators of a table with
// their precedences, all of them left-associative. A formula is read into a tree; what an operator does is
// the caller's to say. Exact.
//
//   const std::vector<FormulaOperator> table = {{"+", 1}, {"*", 2}};
//   const std::optional<Formula> formula = read_formula("2 * (x + 3)", table);
//
// Bounded: 1,000 characters, nesting of 32. Pure.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "puzzles/engine/answers/rational.h"

namespace longhaul::puzzles {

struct FormulaOperator {
  std::string symbol;
  int precedence = 1;  // the higher one is applied first
};

struct Formula {
  enum class Kind : uint8_t { kNumber, kX, kY, kAbsolute, kOperator };
  struct Node {
    Kind kind = Kind::kNumber;
    int64_t number = 0;
    size_t which = 0;  // of the table of operators
    int left = -1, right = -1;
  };
  std::vector<Node> nodes;  // the last one is the whole
};

// None: the text is no formula of these operators. Numbers have at most nine digits and no sign.
std::optional<Formula> read_formula(std::string_view text, std::span<const FormulaOperator> operators);

// What an operator of the table makes of two values; none: it has no value there.
using FormulaStep =
    std::function<std::optional<Rational>(size_t which, const Rational& left, const Rational& right)>;
std::optional<Rational> value_of(const Formula& formula, const FormulaStep& step, const Rational& x = {},
                                 const Rational& y = {});

// The remainder of whole numbers, with the sign of the divisor (0 ≤ 7 % 5 < 5, and -7 % 5 = 3). None: others,
// or a divisor of 0.
std::optional<Rational> remainder_of(const Rational& left, const Rational& right);

}  // namespace longhaul::puzzles
