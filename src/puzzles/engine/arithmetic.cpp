#include "puzzles/engine/arithmetic.h"

#include <limits>
#include <numeric>

namespace longhaul::puzzles {
namespace {

__extension__ using Wide = __int128;

constexpr size_t kLongest = 4096;
constexpr int kDeepest = 32;

std::optional<Fraction> reduced(Wide above, Wide below) {
  if (below == 0) return std::nullopt;
  if (below < 0) above = -above, below = -below;
  Wide a = above < 0 ? -above : above, b = below;
  while (b != 0) {
    const Wide rest = a % b;
    a = b;
    b = rest;
  }
  if (a > 1) above /= a, below /= a;
  constexpr Wide kMost = std::numeric_limits<int64_t>::max();
  if (above > kMost || above < -kMost || below > kMost) return std::nullopt;
  return Fraction{static_cast<int64_t>(above), static_cast<int64_t>(below)};
}

// expression: term {(+|-) term};  term: factor {(*|/) factor};  factor: number | ( expression )
class ArithmeticReader {
 public:
  explicit ArithmeticReader(std::string_view text) : text_(text) {}

  std::optional<Arithmetic> whole() {
    if (text_.size() > kLongest) return std::nullopt;
    const std::optional<Fraction> value = expression(0);
    if (!value || next() != 0) return std::nullopt;
    return Arithmetic{*value, std::move(numbers_)};
  }

 private:
  char next() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r')) ++at_;
    return at_ < text_.size() ? text_[at_] : 0;
  }

  std::optional<Fraction> expression(int depth) {
    std::optional<Fraction> value = term(depth);
    while (value) {
      const char sign = next();
      if (sign != '+' && sign != '-') break;
      ++at_;
      const std::optional<Fraction> other = term(depth);
      if (!other) return std::nullopt;
      value = sign == '+' ? added(*value, *other) : subtracted(*value, *other);
    }
    return value;
  }

  std::optional<Fraction> term(int depth) {
    std::optional<Fraction> value = factor(depth);
    while (value) {
      const char sign = next();
      if (sign != '*' && sign != '/') break;
      ++at_;
      const std::optional<Fraction> other = factor(depth);
      if (!other) return std::nullopt;
      value = sign == '*' ? multiplied(*value, *other) : divided(*value, *other);
    }
    return value;
  }

  std::optional<Fraction> factor(int depth) {
    if (depth > kDeepest) return std::nullopt;
    const char first = next();
    if (first == '(') {
      ++at_;
      const std::optional<Fraction> value = expression(depth + 1);
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
    return Fraction{number, 1};
  }

  std::string_view text_;
  size_t at_ = 0;
  std::vector<int64_t> numbers_;
};

}  // namespace

std::optional<Fraction> added(const Fraction& a, const Fraction& b) {
  return reduced(Wide{a.above} * b.below + Wide{b.above} * a.below, Wide{a.below} * b.below);
}
std::optional<Fraction> subtracted(const Fraction& a, const Fraction& b) {
  return reduced(Wide{a.above} * b.below - Wide{b.above} * a.below, Wide{a.below} * b.below);
}
std::optional<Fraction> multiplied(const Fraction& a, const Fraction& b) {
  return reduced(Wide{a.above} * b.above, Wide{a.below} * b.below);
}
std::optional<Fraction> divided(const Fraction& a, const Fraction& b) { return reduced(Wide{a.above} * b.below, Wide{a.below} * b.above); }

std::optional<Arithmetic> read_arithmetic(std::string_view text) { return ArithmeticReader(text).whole(); }

}  // namespace longhaul::puzzles
