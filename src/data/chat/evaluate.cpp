// The evaluator's expressions.
#include "data/chat/evaluator.h"
#include "data/chat/place.h"

namespace longhaul::data::chat {

Value Evaluator::evaluate(const Expression& expression) {
  const Place place(*this, expression.line);
  const auto part = [&](size_t i) { return evaluate(*expression.parts[i]); };
  switch (expression.kind) {
    case ExpressionKind::kConstant:
      return expression.constant;
    case ExpressionKind::kName:
      return name(expression);
    case ExpressionKind::kTuple:
    case ExpressionKind::kList:
      return make_list(values(expression.parts), budget_, expression.kind == ExpressionKind::kTuple);
    case ExpressionKind::kDict: {
      std::vector<std::pair<Value, Value>> items;
      for (size_t i = 0; i < expression.parts.size(); i += 2) {
        Value key = part(i);
        items.emplace_back(std::move(key), part(i + 1));
      }
      return make_dict(std::move(items), budget_);
    }
    case ExpressionKind::kAttribute:
      return attribute_of(part(0), expression.name, budget_);
    case ExpressionKind::kItem: {
      const Value of = part(0);
      return item_of(of, part(1), budget_);
    }
    case ExpressionKind::kSlice:
      return slice(expression);
    case ExpressionKind::kCall:
      return called(expression, Value());
    case ExpressionKind::kFilter: {
      const Value value = part(0);
      return filtered(expression.name, value, arguments(expression.call));
    }
    case ExpressionKind::kTest: {
      const Value value = part(0);
      return tested(expression.name, value, arguments(expression.call));
    }
    case ExpressionKind::kNegative:
      return operate("-", int64_t{0}, part(0), *this);
    case ExpressionKind::kPositive:
      return operate("+", int64_t{0}, part(0), *this);
    case ExpressionKind::kNot:
      return !truth(part(0));
    case ExpressionKind::kOperation: {
      const Value left = part(0);
      return operate(expression.name, left, part(1), *this);
    }
    case ExpressionKind::kComparisons:
      return comparisons(expression);
    case ExpressionKind::kAnd:
    case ExpressionKind::kOr: {
      Value left = part(0);
      return truth(left) == (expression.kind == ExpressionKind::kOr) ? left : part(1);
    }
    case ExpressionKind::kCondition:
      return condition(expression);
  }
  return {};
}

Value Evaluator::name(const Expression& expression) {
  const Value* found = scope_->find(expression.name);
  return found != nullptr ? *found : Value::undefined(fmt::format("'{}'", expression.name));
}

std::vector<Value> Evaluator::values(const std::vector<ExpressionPointer>& parts) {
  std::vector<Value> made;
  made.reserve(parts.size());
  for (const auto& part : parts) made.push_back(evaluate(*part));
  return made;
}

Arguments Evaluator::arguments(const CallArguments& call) {
  Arguments made{.by_place = values(call.by_place), .by_name = {}};
  for (const auto& [name, expression] : call.by_name) made.by_name.emplace_back(name, evaluate(*expression));
  if (call.rest_by_place != nullptr) {
    for (Value& value : items_of(evaluate(*call.rest_by_place), budget_))
      made.by_place.push_back(std::move(value));
  }
  if (call.rest_by_name == nullptr) return made;
  const Value rest = evaluate(*call.rest_by_name);
  if (rest.dict() == nullptr) fail("** wants a dict, not a {}", rest.type_name());
  for (const auto& [key, value] : rest.dict()->items) {
    if (key.text() == nullptr) fail("the names of arguments are texts");
    made.by_name.emplace_back(key.text()->bytes(), value);
  }
  return made;
}

Value Evaluator::called(const Expression& expression, Value caller) {
  const Value callee = evaluate(*expression.parts[0]);
  Arguments given = arguments(expression.call);
  if (!caller.is_undefined()) given.by_name.emplace_back("caller", std::move(caller));
  return call(callee, std::move(given));
}

Value Evaluator::slice(const Expression& expression) {
  const auto part = [&](size_t i) {
    return expression.parts[i] != nullptr ? evaluate(*expression.parts[i]) : Value(None{});
  };
  const Value of = part(0), from = part(1), to = part(2), step = part(3);
  return sliced(of, from, to, step, budget_);
}

Value Evaluator::comparisons(const Expression& expression) {
  Value left = evaluate(*expression.parts[0]);
  for (size_t i = 0; i < expression.signs.size(); ++i) {
    const std::string& sign = expression.signs[i];
    Value right = evaluate(*expression.parts[i + 1]);
    bool holds = false;
    if (sign == "==" || sign == "!=") {
      holds = equal(left, right, budget_) == (sign == "==");
    } else if (sign == "in" || sign == "not in") {
      holds = contains(right, left, budget_) == (sign == "in");
    } else {
      const int order = compare(left, right, budget_);
      holds = sign == "<" ? order < 0 : sign == "<=" ? order <= 0 : sign == ">" ? order > 0 : order >= 0;
    }
    if (!holds) return false;
    left = std::move(right);
  }
  return true;
}

Value Evaluator::condition(const Expression& expression) {
  if (truth(evaluate(*expression.parts[0]))) return evaluate(*expression.parts[1]);
  if (expression.parts[2] != nullptr) return evaluate(*expression.parts[2]);
  return Value::undefined("a condition without else");
}

}  // namespace longhaul::data::chat
