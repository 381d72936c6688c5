// An expression of LaTeX or plain text as an exact number. None: it is not such an expression, or has no
// exact value. "x^2 + \frac{1}{2}", "2\sqrt{3}", "3\frac{1}{2}" (three and a half), "5/7", ".25", "(1 + 2)x".
#pragma once

#include <optional>
#include <string_view>

#include "puzzles/grade/exact_number.h"

namespace longhaul::puzzles {

std::optional<ExactNumber> read_expression(std::string_view text);

}  // namespace longhaul::puzzles
