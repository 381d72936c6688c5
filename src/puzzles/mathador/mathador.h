// Mathador (the game of 24): make the target of the given numbers, each used once, with + - * / and
// parentheses; division is exact. given: {"numbers": [4, 7, 8, 8], "operators": ["+", "-", "*", "/"],
// "result": 24}. Source: docs/puzzles.md#mathador.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "puzzles/task.h"

namespace longhaul::puzzles::mathador {

// An expression that makes the target; none: there is none.
std::optional<std::string> solve(const std::vector<int64_t>& numbers, int64_t target);

struct Given {
  std::vector<int64_t> numbers;
  int64_t result = 0;
};
Given read_given(const nlohmann::json& given);  // kData

std::string prompt(const nlohmann::json& given, Language language, int64_t which);
extern const TaskEntry kTask;

}  // namespace longhaul::puzzles::mathador
