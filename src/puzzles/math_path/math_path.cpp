#include "puzzles/math_path/math_path.h"

#include <algorithm>
#include <vector>

#include "puzzles/engine/answers/answer.h"
#include "puzzles/engine/answers/formula.h"
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

std::span<const FormulaOperator> operators() {
  static const std::vector<FormulaOperator> all = {{"+", 1}, {"-", 1}, {"*", 2}, {"/", 2}, {"%", 2}};
  return all;
}

std::string drawn_expression(int64_t count, int64_t parentheses, Draw& draw) {
  // A pair opens at a number and closes at the next one; no number belongs to two pairs.
  std::vector<int> pair_of(static_cast<size_t>(count) + 1, -1);
  for (int64_t pair = 0; pair < parentheses; ++pair) {
    const size_t first = draw.below(static_cast<uint64_t>(count));
    if (pair_of[first] < 0 && pair_of[first + 1] < 0) pair_of[first] = 1, pair_of[first + 1] = 2;
  }
  std::string text;
  for (size_t i = 0; i < pair_of.size(); ++i) {
    if (i > 0) text += fmt::format(" {} ", kSigns[draw.below(kSigns.size())]);
    if (pair_of[i] == 1) text += '(';
    text += static_cast<char>('0' + draw.below(10));
    if (pair_of[i] == 2) text += ')';
  }
  return text;
}

std::optional<Puzzle> generate(const KnobValues& knobs, Draw& draw) {
  for (int attempt = 0; attempt < kTries; ++attempt) {
    const std::string left = drawn_expression(knobs["operators"], knobs["parentheses"], draw);
    const std::optional<Rational> value = value_of_left(left);
    if (!value || value->above > 99'999 || value->above < -99'999) continue;
    std::string query = left;
    bool hidden = false;
    for (char& c : query) {
      if (c < '0' || c > '9' || !draw.chance(knobs["hidden_percent"])) continue;
      c = '?';
      hidden = true;
    }
    if (!hidden) continue;
    const std::string right = fmt::format(" = {}", value->above);
    return Puzzle{.given = {{"ref_expr", left + right}, {"query_expr", query + right}},
                  .solution = "[[" + left + right + "]]"};
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
  if (equals == std::string::npos || query.size() > 500 || filled.find_first_of("xy|") != std::string::npos ||
      !read_formula(filled, operators()) || !read_integer(query.substr(equals + 1)))
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
  const std::optional<Rational> value = value_of_left(answer.substr(0, equals));
  if (!value) return {VerdictCode::kRuleBroken, "a division that does not come out, or a remainder by 0"};
  if (*value != Rational{read_integer(answer.substr(equals + 1)).value(), 1})
    return {VerdictCode::kRuleBroken, fmt::format("the left side makes {}", text_of(*value))};
  return {};
}

std::string canonical(const nlohmann::json& given) { return query_of(given); }

}  // namespace

std::optional<Rational> value_of_left(std::string_view text) {
  const std::optional<Formula> formula = read_formula(text, operators());
  if (!formula) return std::nullopt;
  return value_of(*formula,
                  [](size_t which, const Rational& a, const Rational& b) -> std::optional<Rational> {
                    switch (which) {
                      case 0:
                        return added(a, b);
                      case 1:
                        return subtracted(a, b);
                      case 2:
                        return multiplied(a, b);
                      case 3: {
                        const std::optional<Rational> quotient = divided(a, b);
                        return quotient && quotient->below == 1 ? quotient : std::nullopt;
                      }
                      default:
                        return b.above > 0 ? remainder_of(a, b) : std::nullopt;
                    }
                  });
}

const TaskEntry kTask = {.key = "math_path",
                         .title = "Hidden digits of an equation",
                         .uniqueness = Uniqueness::kAny,
                         .knobs = kKnobs,
                         .generate = generate,
                         .prompt = prompt,
                         .verify = verify,
                         .count_solutions = nullptr,
                         .canonical = canonical};

}  // namespace longhaul::puzzles::math_path
