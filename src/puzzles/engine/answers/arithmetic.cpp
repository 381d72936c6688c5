#include "puzzles/engine/answers/arithmetic.h"

namespace longhaul::puzzles {
namespace {

constexpr size_t kLongest = 4096;
constexpr int kDeepest = 32;

// expression: term {(+|-) term};  term: factor {(*|/) factor};  factor: number | ( expression )
class ArithmeticReader {
 public:
  explicit ArithmeticReader(std::string_view text) : text_(text) {}

  std::optional<Arithmetic> whole() {
    if (text_.size() > kLongest) return std::nullopt;
    const std::optional<Rational> value = expression(0);
    if (!value || next() != 0) return std::nullopt;
    return Arithmetic{*value, std::move(numbers_)};
  }

 private:
  char next() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r'))
      ++at_;
    return at_ < text_.size() ? text_[at_] : 0;
  }

  std::optional<Rational> expression(int depth) {
    std::optional<Rational> value = term(depth);
    while (value) {
      const char sign = next();
      if (sign != '+' && sign != '-') break;
      ++at_;
      const std::optional<Rational> other = term(depth);
      if (!other) return std::nullopt;
      value = sign == '+' ? added(*value, *other) : subtracted(*value, *other);
    }
    return value;
  }

  std::optional<Rational> term(int depth) {
    std::optional<Rational> value = factor(depth);
    while (value) {
      const char sign = next();
      if (sign != '*' && sign != '/') break;
      ++at_;
      const std::optional<Rational> other = factor(depth);
      if (!other) return std::nullopt;
      value = sign == '*' ? multiplied(*value, *other) : divided(*value, *other);
    }
    return value;
  }

  std::optional<Rational> factor(int depth) {
    if (depth > kDeepest) return std::nullopt;
    const char first = next();
    if (first == '(') {
      ++at_;
      const std::optional<Rational> value = expression(depth + 1);
      if (!value || next() != ')') return std::nullopt;
      ++at_;
      return value;
    }
    if (first < '0' || first > '9') return std::nullopt;
    int64_t number = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      if (number > 100'000'000'000'000) return std::nullopt;
      number = number * 10 + (text_[at_] - '0');
    }
    numbers_.push_back(number);
    return Rational{number, 1};
  }

  std::string_view text_;
  size_t at_ = 0;
  std::vector<int64_t> numbers_;
};

}  // namespace

std::optional<Arithmetic> read_arithmetic(std::string_view text) { return ArithmeticReader(text).whole(); }

}  // namespace longhaul::puzzles
