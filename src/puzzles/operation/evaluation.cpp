#include "puzzles/engine/given.h"
#include "puzzles/operation/operation.h"

namespace longhaul::puzzles::operation {
namespace {

constexpr size_t kMostSymbols = 6;
constexpr int64_t kLargestExponent = 6;
constexpr Condition kConditions[] = {
    {"both_even", "x and y are both even", "x 和 y 都是偶数",
     [](int64_t x, int64_t y) { return x % 2 == 0 && y % 2 == 0; }},
    {"both_odd", "x and y are both odd", "x 和 y 都是奇数",
     [](int64_t x, int64_t y) { return x % 2 != 0 && y % 2 != 0; }},
    {"x_even", "x is even", "x 是偶数", [](int64_t x, int64_t) { return x % 2 == 0; }},
    {"x_odd", "x is odd", "x 是奇数", [](int64_t x, int64_t) { return x % 2 != 0; }},
    {"y_even", "y is even", "y 是偶数", [](int64_t, int64_t y) { return y % 2 == 0; }},
    {"y_odd", "y is odd", "y 是奇数", [](int64_t, int64_t y) { return y % 2 != 0; }},
    {"x_greater", "x is greater than y", "x 大于 y", [](int64_t x, int64_t y) { return x > y; }},
    {"x_less", "x is less than y", "x 小于 y", [](int64_t x, int64_t y) { return x < y; }},
    {"equal", "x is equal to y", "x 等于 y", [](int64_t x, int64_t y) { return x == y; }},
    {"x_three", "x is a multiple of 3", "x 是 3 的倍数", [](int64_t x, int64_t) { return x % 3 == 0; }},
    {"y_three", "y is a multiple of 3", "y 是 3 的倍数", [](int64_t, int64_t y) { return y % 3 == 0; }},
    {"x_five", "x is a multiple of 5", "x 是 5 的倍数", [](int64_t x, int64_t) { return x % 5 == 0; }},
    {"y_five", "y is a multiple of 5", "y 是 5 的倍数", [](int64_t, int64_t y) { return y % 5 == 0; }},
    {"sum_even", "x + y is even", "x + y 是偶数",
     [](int64_t x, int64_t y) { return (x % 2 == 0) == (y % 2 == 0); }},
    {"sum_odd", "x + y is odd", "x + y 是奇数",
     [](int64_t x, int64_t y) { return (x % 2 == 0) != (y % 2 == 0); }},
};

std::vector<FormulaOperator> table_of(std::span<const Symbol> symbols) {
  std::vector<FormulaOperator> table = {{"+", 1}, {"-", 1}, {"*", 2}, {"/", 2}, {"%", 2}, {"**", 3}};
  for (const Symbol& symbol : symbols) table.push_back({symbol.text, static_cast<int>(symbol.precedence)});
  return table;
}
constexpr size_t kOrdinary = 6;  // operators of the table in front of the symbols

std::optional<Rational> power(const Rational& base, const Rational& exponent) {
  if (exponent.below != 1 || exponent.above < 0 || exponent.above > kLargestExponent) return std::nullopt;
  if (base.above == 0 && exponent.above == 0) return std::nullopt;
  std::optional<Rational> value = Rational{1, 1};
  for (int64_t i = 0; value && i < exponent.above; ++i) value = multiplied(*value, base);
  return value;
}

// The formulas of all symbols, read once.
struct Definitions {
  struct One {
    Formula formula, otherwise;
    const Condition* condition = nullptr;
  };
  std::vector<One> all;

  std::optional<Rational> step(size_t which, const Rational& a, const Rational& b) const {
    switch (which) {
      case 0:
        return added(a, b);
      case 1:
        return subtracted(a, b);
      case 2:
        return multiplied(a, b);
      case 3:
        return divided(a, b);
      case 4:
        return remainder_of(a, b);
      case 5:
        return power(a, b);
      default:
        break;
    }
    const One& one = all[which - kOrdinary];
    const bool first =
        one.condition == nullptr || (a.below == 1 && b.below == 1 && one.condition->holds(a.above, b.above));
    return value_of(
        first ? one.formula : one.otherwise,
        [this](size_t w, const Rational& x, const Rational& y) { return step(w, x, y); }, a, b);
  }
};

// A formula that may use the symbols in front of its own; none: it cannot be read.
std::optional<Definitions> definitions_of(const Task& task) {
  Definitions definitions;
  for (size_t i = 0; i < task.symbols.size(); ++i) {
    const Symbol& symbol = task.symbols[i];
    const std::vector<FormulaOperator> table = table_of(std::span(task.symbols).first(i));
    std::optional<Formula> formula = read_formula(symbol.formula, table);
    std::optional<Formula> otherwise =
        symbol.condition != nullptr ? read_formula(symbol.otherwise, table) : Formula{};
    if (!formula || !otherwise) return std::nullopt;
    definitions.all.push_back({std::move(*formula), std::move(*otherwise), symbol.condition});
  }
  return definitions;
}

std::optional<Formula> expression_of(const Task& task) {
  if (task.expression.find_first_of("xy") != std::string::npos) return std::nullopt;
  return read_formula(task.expression, table_of(task.symbols));
}

const Condition* condition_named(const nlohmann::json& json) {
  const std::string& name = text_of(json, "\"condition\"", kTask.key);
  for (const Condition& condition : kConditions) {
    if (condition.name == name) return &condition;
  }
  refuse_given(kTask.key, "a known \"condition\", such as \"x_even\"", json);
}

}  // namespace

std::span<const Condition> conditions() { return kConditions; }

std::optional<Rational> value_of_task(const Task& task) {
  const std::optional<Definitions> definitions = definitions_of(task);
  const std::optional<Formula> expression = expression_of(task);
  if (!definitions || !expression) return std::nullopt;
  return value_of(*expression, [&](size_t which, const Rational& a, const Rational& b) {
    return definitions->step(which, a, b);
  });
}

Task read_given(const nlohmann::json& given) {
  constexpr std::string_view kKey = "operation";
  Task task{.expression = text_of(member_of(given, "expression", kKey), "\"expression\"", kKey)};
  for (const nlohmann::json& one :
       list_of(member_of(given, "symbols", kKey), 1, kMostSymbols, "\"symbols\"", kKey)) {
    Symbol symbol{.text = text_of(member_of(one, "symbol", kKey), "\"symbol\"", kKey),
                  .formula = text_of(member_of(one, "formula", kKey), "\"formula\"", kKey),
                  .precedence = integer_of(member_of(one, "precedence", kKey), 1, 9, "\"precedence\"", kKey)};
    if (one.contains("condition")) {
      symbol.condition = condition_named(one["condition"]);
      symbol.otherwise = text_of(member_of(one, "otherwise", kKey), "\"otherwise\"", kKey);
    }
    if (symbol.text.empty() || symbol.text.size() > 8 ||
        symbol.text.find_first_of("0123456789xy()|+-*/% ") != std::string::npos)
      refuse_given(kKey, "symbols that are no digits, letters, brackets or known operators", one);
    task.symbols.push_back(std::move(symbol));
  }
  if (!definitions_of(task) || !expression_of(task))
    refuse_given(kKey, "formulas in x and y, and an expression of numbers", given);
  return task;
}

}  // namespace longhaul::puzzles::operation
