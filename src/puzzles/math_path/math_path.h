// Math path: an equation of numbers of one digit with + - * / % whose digits are hidden in part; digits are
// looked for that make it true. Every division comes out exactly, and the number after % is above 0.
// given: {"ref_expr": "3 + (4 * 2) = 11", "query_expr": "3 + (? * 2) = 11"}. Source:
// docs/puzzles.md#math_path.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "puzzles/task.h"

namespace longhaul::puzzles::math_path {

// The value of the left side by the rules of the puzzle; none: it is no expression, or a division or
// remainder that they refuse.
std::optional<int64_t> value_of_left(std::string_view text);
std::string prompt(const nlohmann::json& given, Language language, int64_t which);

extern const TaskEntry kTask;

}  // namespace longhaul::puzzles::math_path
