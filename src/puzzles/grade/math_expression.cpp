#include "puzzles/grade/math_expression.h"

#include <algorithm>
#include <cctype>

namespace longhaul::puzzles {
namespace {

constexpr int kDeepestExpression = 32;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// sum: [sign] term {(+|-) term};  term: factor {(*|/| ) factor};  factor: base [^ exponent]
class ExpressionReader {
 public:
  explicit ExpressionReader(std::string_view text) : text_(text) {}

  std::optional<ExactNumber> whole() {
    auto value = sum(0);
    return value && next() == 0 ? value : std::nullopt;
  }

 private:
  using Value = std::optional<ExactNumber>;

  char next() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
    return at_ < text_.size() ? text_[at_] : 0;
  }
  bool take(char c) {
    if (next() != c) return false;
    ++at_;
    return true;
  }
  bool take_command(std::string_view name) {
    next();
    const std::string_view rest = text_.substr(at_);
    if (!rest.starts_with('\\') || !rest.substr(1).starts_with(name)) return false;
    if (rest.size() > name.size() + 1 && is_letter(rest[name.size() + 1])) return false;
    at_ += name.size() + 1;
    return true;
  }

  Value sum(int depth) {
    if (depth > kDeepestExpression) return std::nullopt;
    const bool minus = take('-');
    if (!minus) take('+');
    Value value = term(depth);
    if (value && minus) value = value->negative();
    while (value && (next() == '+' || next() == '-')) {
      const bool less = text_[at_++] == '-';
      Value other = term(depth);
      if (other && less) other = other->negative();
      value = other ? value->plus(*other) : std::nullopt;
    }
    return value;
  }

  Value term(int depth) {
    Value value = factor(depth);
    while (value) {
      const char c = next();
      if (c == '/') {
        ++at_;
        const Value other = factor(depth);
        value = other ? value->over(*other) : std::nullopt;
      } else if (c == '*' || is_letter(c) || c == '\\' || c == '(' || c == '{') {
        at_ += c == '*' ? 1 : 0;
        const Value other = factor(depth);
        value = other ? value->times(*other) : std::nullopt;
      } else {
        break;
      }
    }
    return value;
  }

  Value factor(int depth) {
    Value value = base(depth);
    if (!value || !take('^')) return value;
    const Value exponent = next() == '{' ? braced(depth)
                           : take('-')   ? negated(digit_or_number())
                                         : short_argument(depth);
    const auto fraction = exponent ? exponent->fraction() : std::nullopt;
    if (!fraction) return std::nullopt;
    if (fraction->below == 1) return value->power(fraction->above);
    const Value root = fraction->below == 2 ? value->square_root() : std::nullopt;
    return root ? root->power(fraction->above) : std::nullopt;
  }

  static Value negated(const Value& value) { return value ? value->negative() : std::nullopt; }

  Value base(int depth) {
    const char c = next();
    if (c == '(') return enclosed('(', ')', depth);
    if (c == '{') return braced(depth);
    if (is_digit(c) || c == '.') return number_or_mixed(depth);
    if (take_command("frac")) {
      const Value above = argument(depth), below = argument(depth);
      return above && below ? above->over(*below) : std::nullopt;
    }
    if (take_command("sqrt") || take_word("sqrt")) return root(depth);
    if (take_command("pi") || take_word("pi")) return ExactNumber::letter("pi");
    if (c == '\\') return greek();
    return is_letter(c) ? ExactNumber::letter(std::string(1, text_[at_++])) : Value();
  }

  // A Greek letter; a function, or anything else that is no letter, has no value.
  Value greek() {
    size_t end = at_ + 1;
    while (end < text_.size() && is_letter(text_[end])) ++end;
    const std::string name(text_.substr(at_ + 1, end - at_ - 1));
    constexpr std::string_view kLetters[] = {"alpha",  "beta", "gamma", "delta", "theta",
                                             "lambda", "mu",   "omega", "phi",   "infty"};
    if (std::ranges::find(kLetters, name) == std::end(kLetters)) return std::nullopt;
    at_ = end;
    return ExactNumber::letter(name);
  }

  bool take_word(std::string_view word) {
    next();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  Value enclosed(char open, char close, int depth) {
    if (!take(open)) return std::nullopt;
    Value value = sum(depth + 1);
    return value && take(close) ? value : std::nullopt;
  }
  Value braced(int depth) { return enclosed('{', '}', depth); }

  // What a command takes: braces, or one digit or letter, as in \frac12.
  Value argument(int depth) { return next() == '{' ? braced(depth) : short_argument(depth); }
  Value short_argument(int depth) {
    const char c = next();
    if (is_digit(c)) return ExactNumber::of({text_[at_++] - '0', 1});
    if (c == '(') return enclosed('(', ')', depth);
    if (c == '\\') return depth < kDeepestExpression ? base(depth + 1) : Value();
    return is_letter(c) ? ExactNumber::letter(std::string(1, text_[at_++])) : Value();
  }
  Value digit_or_number() {
    const auto value = number();
    return value ? ExactNumber::of(*value) : Value();
  }

  Value root(int depth) {
    int64_t degree = 2;
    if (take('[')) {
      const auto read = number();
      if (!read || read->below != 1 || read->above < 2 || !take(']')) return std::nullopt;
      degree = read->above;
    }
    const Value under = argument(depth);
    if (!under) return std::nullopt;
    if (degree == 2) return under->square_root();
    // Higher roots of whole numbers alone, and where they are whole.
    const auto fraction = under->fraction();
    if (!fraction || fraction->below != 1 || degree > 32) return std::nullopt;
    for (int64_t whole = 0; whole <= 100'000; ++whole) {
      const auto power = ExactNumber::of({whole, 1}).power(degree);
      const auto value = power ? power->fraction() : std::nullopt;
      if (!value || value->above > fraction->above) break;
      if (value->above == fraction->above) return ExactNumber::of({whole, 1});
    }
    return std::nullopt;
  }

  std::optional<Rational> number() {
    next();
    int64_t digits = 0, below = 1, count = 0;
    bool point = false;
    for (; at_ < text_.size() && (is_digit(text_[at_]) || (text_[at_] == '.' && !point)); ++at_) {
      if (text_[at_] == '.') {
        point = true;
        continue;
      }
      if (++count > 17) return std::nullopt;
      digits = 10 * digits + (text_[at_] - '0');
      if (point) below *= 10;
    }
    if (count == 0) return std::nullopt;
    return divided({digits, 1}, {below, 1});
  }

  // "3\frac{1}{2}" is three and a half, where above and below are whole numbers.
  Value number_or_mixed(int depth) {
    const auto whole = number();
    if (!whole) return std::nullopt;
    const ExactNumber value = ExactNumber::of(*whole);
    const size_t before = at_;
    if (whole->below != 1 || !take_command("frac")) return value;
    const Value above = argument(depth), below = argument(depth);
    const auto above_number = above ? above->fraction() : std::nullopt,
               below_number = below ? below->fraction() : std::nullopt;
    if (above_number && below_number && above_number->below == 1 && below_number->below == 1 &&
        below_number->above != 0) {
      const auto part = above->over(*below);
      return part ? value.plus(*part) : std::nullopt;
    }
    at_ = before;
    return value;
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::optional<ExactNumber> read_expression(std::string_view text) { return ExpressionReader(text).whole(); }

}  // namespace longhaul::puzzles
