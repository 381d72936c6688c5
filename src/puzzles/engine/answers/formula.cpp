#include "puzzles/engine/answers/formula.h"

namespace longhaul::puzzles {
namespace {

constexpr size_t kLongestFormula = 1000;
constexpr int kDeepestFormula = 32;

class FormulaReader {
 public:
  FormulaReader(std::string_view text, std::span<const FormulaOperator> operators)
      : text_(text), operators_(operators) {}

  std::optional<Formula> whole() {
    if (text_.size() > kLongestFormula || joined(0, 0) < 0) return std::nullopt;
    skip_blanks();
    return at_ == text_.size() ? std::optional(std::move(formula_)) : std::nullopt;
  }

 private:
  void skip_blanks() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char expected) {
    skip_blanks();
    if (at_ >= text_.size() || text_[at_] != expected) return false;
    ++at_;
    return true;
  }
  int added_node(const Formula::Node& node) {
    formula_.nodes.push_back(node);
    return static_cast<int>(formula_.nodes.size()) - 1;
  }

  // The longest symbol of the table that stands here.
  std::optional<size_t> next_operator() {
    skip_blanks();
    std::optional<size_t> best;
    for (size_t i = 0; i < operators_.size(); ++i) {
      const std::string& symbol = operators_[i].symbol;
      if (text_.substr(at_).starts_with(symbol) && (!best || symbol.size() > operators_[*best].symbol.size()))
        best = i;
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
      at_ += operators_[*which].symbol.size();
      const int right = joined(operators_[*which].precedence + 1, depth + 1);
      if (right < 0) return -1;
      left = added_node({.kind = Formula::Kind::kOperator, .which = *which, .left = left, .right = right});
    }
    return left;
  }

  int operand(int depth) {
    skip_blanks();
    if (take('(')) {
      const int inside = joined(0, depth + 1);
      return inside >= 0 && take(')') ? inside : -1;
    }
    if (take('|')) {
      const int inside = joined(0, depth + 1);
      return inside >= 0 && take('|') ? added_node({.kind = Formula::Kind::kAbsolute, .left = inside}) : -1;
    }
    if (take('x')) return added_node({.kind = Formula::Kind::kX});
    if (take('y')) return added_node({.kind = Formula::Kind::kY});
    int64_t number = 0;
    const size_t begin = at_;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      if (at_ - begin == 9) return -1;
      number = number * 10 + (text_[at_] - '0');
    }
    return at_ > begin ? added_node({.number = number}) : -1;
  }

  std::string_view text_;
  std::span<const FormulaOperator> operators_;
  size_t at_ = 0;
  Formula formula_;
};

}  // namespace

std::optional<Formula> read_formula(std::string_view text, std::span<const FormulaOperator> operators) {
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
