// ExpressionText: the text of an expression and how far it has been read. Readers of formulas and of plain
// sums share it; what they make of the parts is theirs. Blanks before a part do not count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace longhaul::puzzles {

class ExpressionText {
 public:
  static constexpr size_t kMostDigits = 9;  // so that a number fits into 32 bits

  explicit ExpressionText(std::string_view text) : text_(text) {}

  // The text from the next part on; empty at the end.
  std::string_view rest() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return text_.substr(at_);
  }
  void skip(size_t letters) { at_ += letters; }
  bool take(char expected) {
    if (!rest().starts_with(expected)) return false;
    ++at_;
    return true;
  }
  // A whole number without a sign; nothing: there is none here, or it has more than kMostDigits digits.
  std::optional<int64_t> take_number() {
    const std::string_view here = rest();
    size_t digits = 0;
    int64_t number = 0;
    for (; digits < here.size() && here[digits] >= '0' && here[digits] <= '9'; ++digits) {
      if (digits == kMostDigits) return std::nullopt;
      number = number * 10 + (here[digits] - '0');
    }
    at_ += digits;
    return digits > 0 ? std::optional(number) : std::nullopt;
  }

 private:
  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace longhaul::puzzles
