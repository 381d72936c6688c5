#include "base/text/path_text.h"

#include <cstdlib>

#include "base/error.h"
#include "base/text/number.h"
#include "base/text/utf8.h"

namespace longhaul {
namespace {

constexpr std::string_view kEscaped = "file:";

bool control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

std::string decoded(std::string_view text) {
  std::string_view rest = text.substr(kEscaped.size());
  if (rest.starts_with("///")) rest.remove_prefix(2);  // an empty host
  std::string bytes;
  while (!rest.empty()) {
    if (rest[0] != '%') {
      bytes += rest[0];
      rest.remove_prefix(1);
      continue;
    }
    const auto byte = parse_number<unsigned>(rest.substr(1, 2), 16).value_or(0);
    if (rest.size() < 3 || byte == 0) {
      throw Error({.code = ExitCode::kUsage,
                   .what = "not the text of a path",
                   .expected = "after file: a path in which %XX stands for a byte that is not 0",
                   .found = std::string(rest.substr(0, 3)),
                   .where = std::string(text),
                   .hint = "write % itself as %25"});
    }
    bytes += static_cast<char>(byte);
    rest.remove_prefix(3);
  }
  return bytes;
}

}  // namespace

std::string text_of_path(const std::filesystem::path& path) {
  const std::string& bytes = path.native();
  bool plain = valid_utf8(bytes) && !bytes.starts_with(kEscaped);
  for (const char c : bytes) plain = plain && !control(c);
  if (plain) return bytes;
  std::string text(kEscaped);
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= 0x20 || byte >= 0x7f || c == '%' || c == '?' || c == '#' || c == ',') {
      text += fmt::format("%{:02X}", byte);
    } else {
      text += c;
    }
  }
  return text;
}

std::filesystem::path path_of_text(std::string_view text) {
  if (text.starts_with(kEscaped)) return decoded(text);
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home != '\0' && (text == "~" || text.starts_with("~/")))
    return std::string(home) + std::string(text.substr(1));
  return text;
}

}  // namespace longhaul
