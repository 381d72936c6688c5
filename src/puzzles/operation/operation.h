// Operation: new symbols are defined by formulas in x and y, some of them by two formulas and a condition
// that chooses; an expression with them is to be computed exactly. All operators, ** included, are
// left-associative. given: {"symbols": [{"symbol": "△", "precedence": 4, "formula": "x * 2 + y", "condition":
// "x_greater", "otherwise": "x - y"}, …], "expression": "3 △ 4 + 2"}; without a condition "condition" and
// "otherwise" are missing. Source: docs/puzzles.md#operation.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "puzzles/engine/answers/formula.h"
#include "puzzles/task.h"

namespace longhaul::puzzles::operation {

struct Condition {
  std::string_view name, english, chinese;
  bool (*holds)(int64_t x, int64_t y);  // of whole numbers; for others no condition holds
};
std::span<const Condition> conditions();

struct Symbol {
  std::string text, formula, otherwise;
  int64_t precedence = 1;
  const Condition* condition = nullptr;
};
struct Task {
  std::vector<Symbol> symbols;  // a formula may use the symbols in front of it
  std::string expression;
};

Task read_given(const nlohmann::json& given);
// None: a value does not exist (division by 0, a power that is none), or is too large.
std::optional<Rational> value_of_task(const Task& task);
std::string prompt(const nlohmann::json& given, Language language, int64_t which);

extern const TaskEntry kTask;

}  // namespace longhaul::puzzles::operation
