// Numbers as answers give them: 12, -3/4, \frac{3}{4} or 0.75, read exactly. A decimal number stands for what
// it is near to.
//
//   const std::optional<NumberAnswer> answer = read_number_answer("0.333333");
//   if (answer && is_answer(*answer, {1, 3})) …                                    // true
//
// At most 17 digits; what does not fit in 64 bits has no value. Pure.
#pragma once

#include <optional>
#include <string_view>

#include "puzzles/engine/answers/rational.h"

namespace longhaul::puzzles {

struct NumberAnswer {
  Rational value;
  bool decimal = false;  // it was written with a point
};
std::optional<NumberAnswer> read_number_answer(std::string_view payload);

// The same value, or for a decimal number one that differs by a millionth of `right` at most.
bool is_answer(const NumberAnswer& answer, const Rational& right);

}  // namespace longhaul::puzzles
