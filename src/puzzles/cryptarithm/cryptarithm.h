// Cryptarithms: letters stand for digits in an equation of whole numbers, and the digits are looked for.
// Distinct letters are distinct digits, and a word of two letters or more does not begin with 0. Operators
// are + - *, and * comes before + and -. given: {"equation": "SEND + MORE = MONEY"}. Source:
// docs/puzzles.md#cryptarithm.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "puzzles/task.h"

namespace longhaul::puzzles::cryptarithm {

struct Equation {
  std::vector<std::string> words;  // the operands
  std::string operators;           // one less than there are operands
  std::string result;
};

// None: the text is no equation, or one that is too large (more than ten letters, five operands or 17 digits
// of a product).
std::optional<Equation> read_equation(std::string_view text);
SolutionCount count_solutions(const Equation& equation, int64_t limit, SearchBudget& budget);
std::string prompt(const nlohmann::json& given, Language language, int64_t which);

// in the prompts; no puzzle has it as its solution
inline constexpr std::string_view kExample = "12 + 3 = 15";

extern const TaskEntry kTask;

}  // namespace longhaul::puzzles::cryptarithm
