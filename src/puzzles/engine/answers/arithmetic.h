// Exact arithmetic on what a model wrote: whole numbers, + - * / and parentheses, and nothing else; nothing
// is evaluated but these. Results are fractions; what does not fit in 64 bits has no value.
//
//   const std::optional<Arithmetic> read = read_arithmetic("(8 - 4) * 6");   // value 24, numbers 8, 4, 6
//
// A sign in front of a number or a parenthesis is refused. Nesting of at most 32, 4,096 characters. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "puzzles/engine/answers/rational.h"

namespace longhaul::puzzles {

struct Arithmetic {
  Rational value;
  std::vector<int64_t> numbers;  // in the order in which they stand
};
std::optional<Arithmetic> read_arithmetic(std::string_view text);

}  // namespace longhaul::puzzles
