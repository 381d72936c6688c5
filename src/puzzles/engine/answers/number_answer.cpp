#include "puzzles/engine/answers/number_answer.h"

#include <string>

#include "base/text/text.h"
#include "puzzles/engine/answers/literal.h"

namespace longhaul::puzzles {

std::optional<NumberAnswer> read_number_answer(std::string_view payload) {
  std::string text(trimmed(payload));
  const bool minus = text.starts_with('-');
  std::string plain = minus ? text.substr(1) : text;
  for (const std::string_view command : {"\\frac{", "\\dfrac{"}) {
    const size_t middle = plain.find("}{");
    if (plain.starts_with(command) && plain.ends_with('}') && middle != std::string::npos)
      plain = plain.substr(command.size(), middle - command.size()) + "/" +
              plain.substr(middle + 2, plain.size() - middle - 3);
  }
  const size_t slash = plain.find('/'), point = plain.find('.');
  std::optional<Rational> value;
  if (point != std::string::npos) {
    const std::string digits = plain.substr(0, point) + plain.substr(point + 1);
    if (digits.empty() || digits.size() > 17 || digits.find_first_not_of("0123456789") != std::string::npos)
      return std::nullopt;
    int64_t below = 1;
    for (size_t i = point + 1; i < plain.size(); ++i) below *= 10;
    value = divided({std::stoll(digits), 1}, {below, 1});
  } else {
    const std::optional<int64_t> above = read_integer(plain.substr(0, slash));
    const std::optional<int64_t> below =
        slash == std::string::npos ? std::optional<int64_t>(1) : read_integer(plain.substr(slash + 1));
    if (!above || !below || *above < 0 || *below <= 0) return std::nullopt;
    value = divided({*above, 1}, {*below, 1});
  }
  if (value && minus) value->above = -value->above;
  return value ? std::optional(NumberAnswer{*value, point != std::string::npos}) : std::nullopt;
}

bool is_answer(const NumberAnswer& answer, const Rational& right) {
  if (answer.value == right) return true;
  if (!answer.decimal) return false;
  const auto size_of = [](const Rational& number) {
    return Rational{number.above < 0 ? -number.above : number.above, number.below};
  };
  const std::optional<Rational> off = subtracted(answer.value, right),
                                most = divided(size_of(right), {1'000'000, 1});
  return off && most && size_of(*off) <= *most;
}

}  // namespace longhaul::puzzles
