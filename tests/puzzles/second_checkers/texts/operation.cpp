#include <cmath>
#include <map>

#include "puzzles/second_checkers/checkers.h"

namespace longhaul::puzzles {

namespace {

// What the prompt's lines define, in long double: 64 bits of mantissa tell fractions below 1,000 from each
// other.
struct PlainDefinition {
  int precedence = 0;
  std::string condition, formula, otherwise;
};

class PlainCalculator {
 public:
  std::map<std::string, PlainDefinition> defined;

  long double value(const std::string& text, long double x, long double y) {
    const auto saved_text = text_;
    const size_t saved_at = at_;
    const long double saved_x = x_, saved_y = y_;
    text_ = text, at_ = 0, x_ = x, y_ = y;
    const long double result = above(0);
    text_ = saved_text, at_ = saved_at, x_ = saved_x, y_ = saved_y;
    return result;
  }

 private:
  // A word between blanks and brackets.
  std::string word() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    size_t end = at_;
    while (end < text_.size() && std::string(" ()|").find(text_[end]) == std::string::npos) ++end;
    return text_.substr(at_, end - at_);
  }
  int precedence(const std::string& sign) {
    if (sign == "+" || sign == "-") return 1;
    if (sign == "*" || sign == "/" || sign == "%") return 2;
    return sign == "**" ? 3 : defined.contains(sign) ? defined[sign].precedence : 0;
  }
  static bool holds(const std::string& condition, long double x, long double y) {
    if (std::floor(x) != x || std::floor(y) != y) return false;
    const auto even = [](long double n) { return std::fmod(n, 2) == 0; };
    const std::map<std::string, bool> all = {{"x and y are both even", even(x) && even(y)},
                                             {"x and y are both odd", !even(x) && !even(y)},
                                             {"x is even", even(x)},
                                             {"x is odd", !even(x)},
                                             {"y is even", even(y)},
                                             {"y is odd", !even(y)},
                                             {"x is greater than y", x > y},
                                             {"x is less than y", x < y},
                                             {"x is equal to y", x == y},
                                             {"x is a multiple of 3", std::fmod(x, 3) == 0},
                                             {"y is a multiple of 3", std::fmod(y, 3) == 0},
                                             {"x is a multiple of 5", std::fmod(x, 5) == 0},
                                             {"y is a multiple of 5", std::fmod(y, 5) == 0},
                                             {"x + y is even", even(x + y)},
                                             {"x + y is odd", !even(x + y)}};
    return all.at(condition);
  }
  // Values that should be whole, and are but for the rounding of thirds, are made whole.
  static long double cleaned(long double n) {
    return std::abs(n - std::round(n)) < 1e-12L * (1 + std::abs(n)) ? std::round(n) : n;
  }
  long double applied(const std::string& sign, long double a, long double b) {
    if (sign == "+") return a + b;
    if (sign == "-") return a - b;
    if (sign == "*") return a * b;
    if (sign == "/") return a / b;
    if (sign == "%") return a - b * std::floor(a / b);
    if (sign == "**") return std::pow(a, b);
    const PlainDefinition& one = defined.at(sign);
    return value(one.condition.empty() || holds(one.condition, a, b) ? one.formula : one.otherwise, a, b);
  }
  long double above(int least) {
    long double left = single();
    for (std::string sign = word(); precedence(sign) > least; sign = word()) {
      at_ += sign.size();
      const long double right = above(precedence(sign));
      left = cleaned(applied(sign, left, right));
    }
    return left;
  }
  long double single() {
    const std::string first = word();
    if (first.empty()) {
      const char bracket = text_[at_++];
      const long double inside = above(0);
      word();
      ++at_;
      return bracket == '|' ? std::abs(inside) : inside;
    }
    at_ += first.size();
    return first == "x" ? x_ : first == "y" ? y_ : std::stold(first);
  }

  std::string text_;
  size_t at_ = 0;
  long double x_ = 0, y_ = 0;
};

}  // namespace

bool plain_operation(const nlohmann::json& given, const std::string& text) {
  PlainCalculator calculator;
  std::string expression;
  for (const std::string& line : plain_prompt_lines("operation", given)) {
    const size_t precedence = line.find(" (precedence ");
    if (line.starts_with("Expression: ")) expression = line.substr(12);
    if (precedence == std::string::npos) continue;
    const std::string sign = line.substr(0, precedence), told = line.substr(line.find("): ") + 3);
    PlainDefinition one{.precedence = line[precedence + 13] - '0'};
    const size_t otherwise = told.find("; otherwise "), comma = told.find(", x ");
    one.formula = told.substr(told.find(" = ") + 3,
                              otherwise == std::string::npos ? otherwise : otherwise - told.find(" = ") - 3);
    if (told.starts_with("if ")) {
      one.condition = told.substr(3, comma - 3);
      one.otherwise = told.substr(told.find(" = ", otherwise) + 3);
    }
    calculator.defined[sign] = one;
  }
  const long double value = calculator.value(expression, 0, 0);
  const size_t slash = text.find('/');
  const long double answer =
      std::strtold(text.c_str(), nullptr) /
      (slash == std::string::npos ? 1.0L : std::strtold(text.c_str() + slash + 1, nullptr));
  return std::abs(value - answer) <= 1e-9L * (1 + std::abs(value));
}

}  // namespace longhaul::puzzles
