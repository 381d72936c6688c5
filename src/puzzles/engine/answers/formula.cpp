#include "puzzles/engine/answers/formula.h"

#include "puzzles/engine/answers/expression_text.h"

namespace longhaul::puzzles {
namespace {

constexpr size_t kLongestFormula = 1000;
constexpr int kDeepestFormula = 32;

class FormulaReader {
 public:
  FormulaReader(std::string_view text, std::span<const FormulaOperator> operators)
      : text_(text), operators_(operators) {}

  std::optional<Formula> whole() {
    if (joined(0, 0) < 0) return std::nullopt;
    return text_.rest().empty() ? std::optional(std::move(formula_)) : std::nullopt;
  }

 private:
  int added_node(const Formula::Node& node) {
    formula_.nodes.push_back(node);
    return static_cast<int>(formula_.nodes.size()) - 1;
  }

  // The longest symbol of the table that stands here.
  std::optional<size_t> next_operator() {
    const std::string_view rest = text_.rest();
    std::optional<size_t> best;
    for (size_t i = 0; i < operators_.size(); ++i) {
      const std::string& symbol = operators_[i].symbol;
      if (rest.starts_with(symbol) && (!best || symbol.size() > operators_[*best].symbol.size())) best = i;
    }
    return best;
  }

  // Operands and operators of at least that precedence. -1: there are none.
  int joined(int least, int depth) {
    if (depth > kDeepestFormula) return -1;
    int left = operand(depth);
    while (left >= 0) {
      const std::optional<size_t> which = next_operator();
      if (!which || operators_[*which].precedence < least) break;
      text_.skip(operators_[*which].symbol.size());
      const int right = joined(operators_[*which].precedence + 1, depth + 1);
      if (right < 0) return -1;
      left = added_node({.kind = Formula::Kind::kOperator, .which = *which, .left = left, .right = right});
    }
    return left;
  }

  int operand(int depth) {
    if (text_.take('(')) {
      const int inside = joined(0, depth + 1);
      return inside >= 0 && text_.take(')') ? inside : -1;
    }
    if (text_.take('|')) {
      const int inside = joined(0, depth + 1);
      return inside >= 0 && text_.take('|') ? added_node({.kind = Formula::Kind::kAbsolute, .left = inside})
                                            : -1;
    }
    if (text_.take('x')) return added_node({.kind = Formula::Kind::kX});
    if (text_.take('y')) return added_node({.kind = Formula::Kind::kY});
    const std::optional<int64_t> number = text_.take_number();
    return number ? added_node({.number = *number}) : -1;
  }

  ExpressionText text_;
  std::span<const FormulaOperator> operators_;
  Formula formula_;
};

}  // namespace

std::optional<Formula> read_formula(std::string_view text, std::span<const FormulaOperator> operators) {
  if (text.size() > kLongestFormula) return std::nullopt;
  return FormulaReader(text, operators).whole();
}

// Parts stand before what they are parts of, so one pass is enough.
std::optional<Rational> value_of(const Formula& formula, const FormulaStep& step, const Rational& x,
                                 const Rational& y) {
  std::vector<Rational> values;
  for (const Formula::Node& node : formula.nodes) {
    std::optional<Rational> value;
    switch (node.kind) {
      case Formula::Kind::kNumber:
        value = Rational{node.number, 1};
        break;
      case Formula::Kind::kX:
        value = x;
        break;
      case Formula::Kind::kY:
        value = y;
        break;
      case Formula::Kind::kAbsolute:
        value = values[static_cast<size_t>(node.left)];
        if (value->above < 0) value->above = -value->above;
        break;
      case Formula::Kind::kOperator:
        value =
            step(node.which, values[static_cast<size_t>(node.left)], values[static_cast<size_t>(node.right)]);
        break;
    }
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return values.back();
}

std::optional<Rational> remainder_of(const Rational& left, const Rational& right) {
  if (left.below != 1 || right.below != 1 || right.above == 0) return std::nullopt;
  if (right.above == -1) return Rational{0, 1};  // the least number by -1 would not fit
  int64_t rest = left.above % right.above;
  if (rest != 0 && (rest < 0) != (right.above < 0)) rest += right.above;
  return Rational{rest, 1};
}

}  // namespace longhaul::puzzles
