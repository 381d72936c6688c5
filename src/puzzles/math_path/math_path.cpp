#include "puzzles/math_path/math_path.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "puzzles/engine/answers/answer.h"
#include "puzzles/engine/answers/expression_text.h"
#include "puzzles/engine/answers/literal.h"
#include "puzzles/engine/given.h"

namespace longhaul::puzzles::math_path {
namespace {

constexpr Knob kKnobs[] = {
    {"operators", 2, 20, 3, 12, "operators of the equation"},
    {"hidden_percent", 10, 100, 50, 100, "percent of the digits that are hidden"},
    {"parentheses", 0, 5, 0, 3, "pairs of parentheses at most, each around two neighbours"}};
constexpr std::string_view kSigns = "+-*/%";
constexpr int kTries = 100;  // drawings of numbers and operators in one attempt

// Reads an expression of whole numbers, + - * / % and parentheses, and computes it as it goes on.
class Expression {
 public:
  explicit Expression(std::string_view text) : text_(text) {
    readable_ = text.size() <= kLongestExpression;
    const int64_t all = joined(0, 0);
    readable_ = readable_ && text_.rest().empty();
    if (readable_ && has_value_) value_ = all;
  }
  bool is_readable() const { return readable_; }
  std::optional<int64_t> value() const { return value_; }  // none: a division that does not come out, …

 private:
  static constexpr size_t kLongestExpression = 1000;
  static constexpr int kDeepest = 32;

  int64_t joined(int least, int depth) {  // operands and operators of at least that precedence
    readable_ &= depth <= kDeepest;
    if (!readable_) return 0;
    int64_t left = operand(depth);
    for (;;) {
      const std::string_view rest = text_.rest();
      const char sign = readable_ && !rest.empty() ? rest.front() : ' ';
      const int precedence = sign == '+' || sign == '-'                  ? 1
                             : sign == '*' || sign == '/' || sign == '%' ? 2
                                                                         : 0;
      if (precedence == 0 || precedence < least) return left;
      text_.skip(1);
      left = applied(sign, left, joined(precedence + 1, depth + 1));
    }
  }
  int64_t operand(int depth) {
    if (text_.take('(')) {
      const int64_t inside = joined(0, depth + 1);
      readable_ = readable_ && text_.take(')');
      return inside;
    }
    const std::optional<int64_t> number = text_.take_number();
    readable_ = readable_ && number;
    return number.value_or(0);
  }
  int64_t applied(char sign, int64_t left, int64_t right) {
    int64_t value = 0;
    bool fits = has_value_;
    if (sign == '+') fits = fits && !__builtin_add_overflow(left, right, &value);
    if (sign == '-') fits = fits && !__builtin_sub_overflow(left, right, &value);
    if (sign == '*') fits = fits && !__builtin_mul_overflow(left, right, &value);
    if (sign == '/' || sign == '%') {
      // the least number by -1 would not fit
      fits =
          fits && right != 0 && (right > 0 || (sign == '/' && left != std::numeric_limits<int64_t>::min()));
      const int64_t rest = fits ? left % right : 0;
      if (fits && sign == '/') value = left / right, fits = rest == 0;
      if (fits && sign == '%') value = rest < 0 ? rest + right : rest;
    }
    has_value_ = fits;
    return value;
  }

  ExpressionText text_;
  bool readable_ = true, has_value_ = true;
  std::optional<int64_t> value_;
};

std::string drawn_expression(int64_t count, int64_t parentheses, Draw& draw) {
  // A pair opens at a number and closes at the next one; no number belongs to two pairs.
  std::vector<int> pair_of(static_cast<size_t>(count) + 1, -1);
  for (int64_t pair = 0; pair < parentheses; ++pair) {
    const size_t first = draw.below(static_cast<uint64_t>(count));
    if (pair_of[first] < 0 && pair_of[first + 1] < 0) pair_of[first] = 1, pair_of[first + 1] = 2;
  }
  std::string text;
  for (size_t i = 0; i < pair_of.size(); ++i) {
    if (i > 0) ((text += ' ') += kSigns[draw.below(kSigns.size())]) += ' ';
    if (pair_of[i] == 1) text += '(';
    text += static_cast<char>('0' + draw.below(10));
    if (pair_of[i] == 2) text += ')';
  }
  return text;
}

std::optional<Puzzle> generate(const KnobValues& knobs, Draw& draw) {
  const int64_t operators = knobs["operators"], parentheses = knobs["parentheses"],
                hidden_percent = knobs["hidden_percent"];
  for (int attempt = 0; attempt < kTries; ++attempt) {
    const std::string left = drawn_expression(operators, parentheses, draw);
    const std::optional<int64_t> value = value_of_left(left);
    if (!value || *value > 99'999 || *value < -99'999) continue;
    std::string query = left;
    bool hidden = false;
    for (char& c : query) {
      if (c < '0' || c > '9' || !draw.chance(hidden_percent)) continue;
      c = '?';
      hidden = true;
    }
    if (!hidden) continue;
    const std::string right = " = " + std::to_string(*value);
    Puzzle puzzle{.given = nlohmann::json::object(), .solution = "[[" + left + right + "]]"};
    puzzle.given["ref_expr"] = left + right;
    puzzle.given["query_expr"] = query + right;
    return puzzle;
  }
  return std::nullopt;
}

std::string without_blanks(std::string_view text) {
  std::string plain(text);
  std::erase_if(plain, [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; });
  return plain;
}

// The equation without blanks, if its left side may be one and its right side is a whole number.
std::string query_of(const nlohmann::json& given) {
  const std::string query =
      without_blanks(text_of(member_of(given, "query_expr", kTask.key), "\"query_expr\"", kTask.key));
  const size_t equals = query.find('=');
  std::string filled = query.substr(0, equals);
  for (size_t i = 0; i < filled.size(); ++i) {
    const auto is_place = [&](size_t at) {
      return at < filled.size() && (filled[at] == '?' || (filled[at] >= '0' && filled[at] <= '9'));
    };
    if (is_place(i) && is_place(i + 1)) filled.clear();  // numbers have one digit
  }
  std::ranges::replace(filled, '?', '1');
  if (equals == std::string::npos || query.size() > 500 || !Expression(filled).is_readable() ||
      !read_integer(query.substr(equals + 1)))
    refuse_given(kTask.key,
                 "\"query_expr\": numbers of one digit or ?, + - * / % ( ), then = and a whole number",
                 given);
  return query;
}

Verdict verify(const nlohmann::json& given, std::string_view payload) {
  const std::string query = query_of(given);
  std::string answer = without_blanks(payload);
  if (answer.starts_with("[[") && answer.ends_with("]]") && answer.size() > 4)
    answer = answer.substr(2, answer.size() - 4);
  if (answer.find_first_not_of("0123456789+-*/%()=") != std::string::npos ||
      answer.find('=') == std::string::npos)
    return {VerdictCode::kUnreadable, "no equation of digits, + - * / % ( ) and ="};
  if (answer.size() != query.size())
    return {VerdictCode::kShape, "it has not as many digits and signs as the puzzle"};
  for (size_t i = 0; i < query.size(); ++i) {
    const bool digit = answer[i] >= '0' && answer[i] <= '9';
    if (query[i] == '?' && !digit)
      return {VerdictCode::kShape, fmt::format("'{}' stands where a digit is hidden", answer[i])};
    if (query[i] != '?' && answer[i] != query[i])
      return {VerdictCode::kGivenChanged,
              fmt::format("'{}' stands where the puzzle has '{}'", answer[i], query[i])};
  }
  const size_t equals = answer.find('=');
  const std::optional<int64_t> value = value_of_left(std::string_view(answer).substr(0, equals));
  if (!value) return {VerdictCode::kRuleBroken, "a division that does not come out, or a remainder by 0"};
  if (*value != read_integer(std::string_view(answer).substr(equals + 1)).value())
    return {VerdictCode::kRuleBroken, fmt::format("the left side makes {}", *value)};
  return {};
}

std::string canonical(const nlohmann::json& given) { return query_of(given); }

}  // namespace

std::optional<int64_t> value_of_left(std::string_view text) { return Expression(text).value(); }

const TaskEntry kTask = {.key = "math_path",
                         .title = "Hidden digits of an equation",
                         .version = 2,
                         .uniqueness = Uniqueness::kAny,
                         .knobs = kKnobs,
                         .generate = generate,
                         .prompt = prompt,
                         .verify = verify,
                         .count_solutions = nullptr,
                         .canonical = canonical};

}  // namespace longhaul::puzzles::math_path
