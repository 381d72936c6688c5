// Whether two answers in mathematics are the same, read exactly and without evaluating anything but the
// arithmetic of exact_number.h. Understood are numbers (fractions, decimals, roots, powers, π, letters), in
// LaTeX or plain; pairs and points, intervals and their unions, sets, lists, matrices; "x = 5"; units and
// signs of currency, which do not count; commas between thousands. What cannot be read so is compared as
// text, blanks and case aside.
//
//   same_math_answer("\\frac{\\sqrt{8}}{2}", "√2")      // true
//   same_math_answer("3.14", "\\pi")                     // false: nothing is rounded
//
// Answers are at most 2,000 bytes; longer ones are equal to none.
#pragma once

#include <string>
#include <string_view>

namespace longhaul::puzzles {

bool same_math_answer(std::string_view a, std::string_view b);

}  // namespace longhaul::puzzles
