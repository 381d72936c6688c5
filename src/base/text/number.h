// Numbers in text, as std::from_chars reads them: in the C locale, with no blanks before, and with "-" as the
// only sign. A number that does not fit into `Number` is none.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>
#include <type_traits>

namespace longhaul {

// The number with which the text begins; it is removed from the text. Nothing, and the text is unchanged:
// there is none.
template <class Number>
std::optional<Number> take_number(std::string_view& text, int base = 10) {
  Number number{};
  const char *const begin = text.data(), *const end = begin + text.size();
  std::from_chars_result read{};
  if constexpr (std::is_floating_point_v<Number>)
    read = std::from_chars(begin, end, number);
  else
    read = std::from_chars(begin, end, number, base);
  if (read.ec != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(read.ptr - begin));
  return number;
}

// The number that the whole text is, such as "-12" for int64_t and "1e-3" for double.
template <class Number>
std::optional<Number> parse_number(std::string_view text, int base = 10) {
  const std::optional<Number> number = take_number<Number>(text, base);
  return text.empty() ? number : std::nullopt;
}

// The number with which the text begins, whatever follows it.
template <class Number>
std::optional<Number> leading_number(std::string_view text, int base = 10) {
  return take_number<Number>(text, base);
}

}  // namespace longhaul
