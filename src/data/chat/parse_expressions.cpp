// Parser of expressions.
#include <algorithm>
#include <array>

#include "data/chat/parser.h"

namespace longhaul::data::chat {

ExpressionPointer Parser::finished(ExpressionPointer made) {
  int64_t depth = 0;
  const auto count = [&](const ExpressionPointer& part) {
    if (part != nullptr) depth = std::max(depth, part->depth);
  };
  for (const auto& part : made->parts) count(part);
  for (const auto& part : made->call.by_place) count(part);
  for (const auto& part : made->call.by_name) count(part.second);
  count(made->call.rest_by_place);
  count(made->call.rest_by_name);
  made->depth = depth + 1;
  if (made->depth > limits_.depth) fail("an expression is nested more than {} deep", limits_.depth);
  return made;
}

ExpressionPointer Parser::make(ExpressionKind kind, std::vector<ExpressionPointer> parts, std::string name) {
  auto made = std::make_unique<Expression>();
  made->kind = kind;
  made->line = line_;
  made->name = std::move(name);
  made->parts = std::move(parts);
  return finished(std::move(made));
}

namespace {

template <class... Each>
std::vector<ExpressionPointer> parts(Each... each) {
  std::vector<ExpressionPointer> made;
  (made.push_back(std::move(each)), ...);
  return made;
}

}  // namespace

bool Parser::ends_tuple() const {
  const TokenKind kind = look().kind;
  return kind == TokenKind::kBlockEnd || kind == TokenKind::kOutputEnd || kind == TokenKind::kEnd ||
         is_sign(")") || is_name("recursive");
}

ExpressionPointer Parser::tuple(bool with_condition) {
  const auto item = [&] { return with_condition ? expression() : either(); };
  ExpressionPointer first = item();
  if (!is_sign(",")) return first;
  ExpressionPointer made = make(ExpressionKind::kTuple, {});
  made->parts.push_back(std::move(first));
  while (take_sign(",")) {
    if (ends_tuple()) break;
    made->parts.push_back(item());
  }
  return finished(std::move(made));
}

ExpressionPointer Parser::expression() {
  const Level level(*this);
  ExpressionPointer value = either();
  while (take_name("if")) {
    ExpressionPointer condition = either();
    ExpressionPointer otherwise = take_name("else") ? expression() : nullptr;
    value =
        make(ExpressionKind::kCondition, parts(std::move(condition), std::move(value), std::move(otherwise)));
  }
  return value;
}

ExpressionPointer Parser::either() {
  ExpressionPointer left = both();
  while (take_name("or")) {
    ExpressionPointer right = both();
    left = make(ExpressionKind::kOr, parts(std::move(left), std::move(right)));
  }
  return left;
}

ExpressionPointer Parser::both() {
  ExpressionPointer left = negation();
  while (take_name("and")) {
    ExpressionPointer right = negation();
    left = make(ExpressionKind::kAnd, parts(std::move(left), std::move(right)));
  }
  return left;
}

ExpressionPointer Parser::negation() {
  if (!is_name("not") || is_name("in", 1)) return comparison();
  const Level level(*this);
  next();
  return make(ExpressionKind::kNot, parts(negation()));
}

ExpressionPointer Parser::comparison() {
  ExpressionPointer first = sum();
  std::vector<ExpressionPointer> compared;
  std::vector<std::string> signs;
  static constexpr std::array<std::string_view, 6> kSigns{"==", "!=", "<", "<=", ">", ">="};
  while (true) {
    const bool sign =
        look().kind == TokenKind::kSign && std::ranges::find(kSigns, look().text) != kSigns.end();
    if (sign || is_name("in")) {
      signs.push_back(next().text);
    } else if (is_name("not") && is_name("in", 1)) {
      next();
      next();
      signs.emplace_back("not in");
    } else {
      break;
    }
    compared.push_back(sum());
  }
  if (signs.empty()) return first;
  ExpressionPointer made = make(ExpressionKind::kComparisons, {});
  made->parts = std::move(compared);
  made->parts.insert(made->parts.begin(), std::move(first));
  made->signs = std::move(signs);
  return finished(std::move(made));
}

ExpressionPointer Parser::sum() {
  ExpressionPointer left = joined();
  while (is_sign("+") || is_sign("-")) {
    const std::string sign = next().text;
    ExpressionPointer right = joined();
    left = make(ExpressionKind::kOperation, parts(std::move(left), std::move(right)), sign);
  }
  return left;
}

ExpressionPointer Parser::joined() {
  ExpressionPointer left = product();
  while (take_sign("~")) {
    ExpressionPointer right = product();
    left = make(ExpressionKind::kOperation, parts(std::move(left), std::move(right)), "~");
  }
  return left;
}

ExpressionPointer Parser::product() {
  ExpressionPointer left = power();
  while (is_sign("*") || is_sign("/") || is_sign("//") || is_sign("%")) {
    const std::string sign = next().text;
    ExpressionPointer right = power();
    left = make(ExpressionKind::kOperation, parts(std::move(left), std::move(right)), sign);
  }
  return left;
}

ExpressionPointer Parser::power() {
  ExpressionPointer left = unary();
  while (take_sign("**")) {
    ExpressionPointer right = unary();
    left = make(ExpressionKind::kOperation, parts(std::move(left), std::move(right)), "**");
  }
  return left;
}

ExpressionPointer Parser::unary(bool with_filters) {
  const Level level(*this);
  ExpressionPointer made;
  if (is_sign("-") || is_sign("+")) {
    const bool minus = next().text == "-";
    made = make(minus ? ExpressionKind::kNegative : ExpressionKind::kPositive, parts(unary(false)));
  } else {
    made = primary();
  }
  made = postfixes(std::move(made));
  return with_filters ? filters(std::move(made)) : std::move(made);
}

ExpressionPointer Parser::constant(Value value) {
  ExpressionPointer made = make(ExpressionKind::kConstant, {});
  made->constant = std::move(value);
  return made;
}

ExpressionPointer Parser::primary() {
  if (is_sign("[")) return list();
  if (is_sign("{")) return dict();
  if (take_sign("(")) {
    if (take_sign(")")) return make(ExpressionKind::kTuple, {});
    const Level level(*this);
    ExpressionPointer made = tuple();
    expect_sign(")");
    return made;
  }
  switch (look().kind) {
    case TokenKind::kInteger:
      return constant(next().integer);
    case TokenKind::kFloat:
      return constant(next().number);
    case TokenKind::kString: {
      std::string text = next().text;
      while (look().kind == TokenKind::kString) text += next().text;
      return constant(MarkedText(std::move(text), Mark::kTemplate));
    }
    case TokenKind::kName:
      break;
    default:
      unexpected("an expression");
  }
  const std::string& word = next().text;
  if (word == "true" || word == "True") return constant(true);
  if (word == "false" || word == "False") return constant(false);
  if (word == "none" || word == "None") return constant(None{});
  return make(ExpressionKind::kName, {}, word);
}

ExpressionPointer Parser::list() {
  ExpressionPointer made = make(ExpressionKind::kList, {});
  expect_sign("[");
  while (!take_sign("]")) {
    if (!made->parts.empty()) {
      expect_sign(",");
      if (take_sign("]")) break;
    }
    made->parts.push_back(expression());
  }
  return finished(std::move(made));
}

ExpressionPointer Parser::dict() {
  ExpressionPointer made = make(ExpressionKind::kDict, {});
  expect_sign("{");
  while (!take_sign("}")) {
    if (!made->parts.empty()) {
      expect_sign(",");
      if (take_sign("}")) break;
    }
    made->parts.push_back(expression());
    expect_sign(":");
    made->parts.push_back(expression());
  }
  return finished(std::move(made));
}

ExpressionPointer Parser::postfixes(ExpressionPointer of) {
  while (true) {
    if (take_sign(".")) {
      if (look().kind == TokenKind::kInteger) {
        ExpressionPointer index = constant(next().integer);
        of = make(ExpressionKind::kItem, parts(std::move(of), std::move(index)));
      } else {
        std::string attribute = name("the name of an attribute");
        of = make(ExpressionKind::kAttribute, parts(std::move(of)), std::move(attribute));
      }
    } else if (is_sign("[")) {
      of = subscript(std::move(of));
    } else if (is_sign("(")) {
      of = call(std::move(of));
    } else {
      return of;
    }
  }
}

ExpressionPointer Parser::subscript(ExpressionPointer of) {
  expect_sign("[");
  std::array<ExpressionPointer, 3> bounds;
  size_t part = 0;
  bool slice = false;
  while (!is_sign("]")) {
    if (take_sign(":")) {
      slice = true;
      if (++part > 2) unexpected("']'");
    } else if (bounds[part] != nullptr) {
      unexpected("']'");
    } else {
      bounds[part] = expression();
    }
  }
  if (!slice && bounds[0] == nullptr) unexpected("an index");
  expect_sign("]");
  if (!slice) return make(ExpressionKind::kItem, parts(std::move(of), std::move(bounds[0])));
  return make(ExpressionKind::kSlice,
              parts(std::move(of), std::move(bounds[0]), std::move(bounds[1]), std::move(bounds[2])));
}

ExpressionPointer Parser::filters(ExpressionPointer of) {
  while (true) {
    if (take_sign("|")) {
      of = filter(std::move(of));
    } else if (take_name("is")) {
      of = test(std::move(of));
    } else if (is_sign("(")) {
      of = call(std::move(of));
    } else {
      return of;
    }
  }
}

ExpressionPointer Parser::filter(ExpressionPointer of) {
  std::string filter_name = name("the name of a filter");
  ExpressionPointer made = make(ExpressionKind::kFilter, parts(std::move(of)), std::move(filter_name));
  if (is_sign("(")) made->call = arguments();
  return finished(std::move(made));
}

ExpressionPointer Parser::test(ExpressionPointer of) {
  const bool negated = take_name("not");
  std::string test_name = name("the name of a test");
  ExpressionPointer made = make(ExpressionKind::kTest, parts(std::move(of)), std::move(test_name));
  const TokenKind kind = look().kind;
  const bool word = kind == TokenKind::kName && !is_name("else") && !is_name("or") && !is_name("and") &&
                    !is_name("is") && !is_name("if") && !is_name("not") && !is_name("in") &&
                    !is_name("recursive");
  if (is_sign("(")) {
    made->call = arguments();
  } else if (word || kind == TokenKind::kString || kind == TokenKind::kInteger || kind == TokenKind::kFloat ||
             is_sign("[") || is_sign("{")) {
    made->call.by_place.push_back(postfixes(primary()));
  }
  made = finished(std::move(made));
  return negated ? make(ExpressionKind::kNot, parts(std::move(made))) : std::move(made);
}

ExpressionPointer Parser::call(ExpressionPointer of) {
  ExpressionPointer made = make(ExpressionKind::kCall, parts(std::move(of)));
  made->call = arguments();
  return finished(std::move(made));
}

CallArguments Parser::arguments() {
  const Level level(*this);
  CallArguments made;
  expect_sign("(");
  bool first = true;
  while (!take_sign(")")) {
    if (!std::exchange(first, false)) {
      expect_sign(",");
      if (take_sign(")")) break;
    }
    if (take_sign("*")) {
      made.rest_by_place = expression();
    } else if (take_sign("**")) {
      made.rest_by_name = expression();
    } else if (look().kind == TokenKind::kName && is_sign("=", 1)) {
      std::string argument = next().text;
      next();
      made.by_name.emplace_back(std::move(argument), expression());
    } else {
      if (!made.by_name.empty() || made.rest_by_name != nullptr) unexpected("an argument by name");
      made.by_place.push_back(expression());
    }
  }
  return made;
}

}  // namespace longhaul::data::chat
