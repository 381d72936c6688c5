#include "recipe/options/value.h"

#include <fmt/format.h>

#include "base/text/text.h"

namespace longhaul::recipe {

namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\r':
        out += "\\r";
        break;
      default:
        if (byte < 0x20 || byte == 0x7f) {
          out += fmt::format("\\u{:04X}", byte);
        } else {
          out += c;
        }
    }
  }
  return out + "\"";
}

// Shortest decimal that reads back to the same bits, and that TOML reads as a number with a fraction.
std::string number_text(double number) {
  std::string text = fmt::format("{}", number);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";  // n: inf, nan
  return text;
}

}  // namespace

std::string Value::toml() const {
  if (is_bool()) return as_bool() ? "true" : "false";
  if (is_integer()) return fmt::format("{}", as_integer());
  if (is_number()) return number_text(as_number());
  if (is_text()) return quoted(as_text());
  std::string out;
  if (is_list()) {
    for (const Value& item : as_list()) out += (out.empty() ? "" : ", ") + item.toml();
    return "[" + out + "]";
  }
  for (const auto& [key, value] : as_table())
    out += fmt::format("{} {} = {}", out.empty() ? "" : ",", key, value.toml());
  return out.empty() ? "{}" : "{" + out + " }";
}

std::string Value::described() const {
  static constexpr size_t kLongest = 80;
  std::string text = printable(toml());
  if (text.size() > kLongest) {
    size_t end = kLongest;
    // not inside a UTF-8 character
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
    text = text.substr(0, end) + "…";
  }
  const char* kind = is_bool()      ? "true or false"
                     : is_integer() ? "a whole number"
                     : is_number()  ? "a number with a fraction"
                     : is_text()    ? "text"
                     : is_list()    ? "a list"
                                    : "a table";
  return fmt::format("{} ({})", text, kind);
}

}  // namespace longhaul::recipe
