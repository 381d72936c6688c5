#include "base/text.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>

#include "base/progress.h"

namespace longhaul {
namespace {

// Optimal string alignment distance.
size_t spelling_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

// Of the character that the text begins with; 0 where that is none.
size_t character_bytes(std::string_view text) {
  utf8proc_int32_t character = 0;
  const auto used =
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()), &character);
  return used > 0 ? static_cast<size_t>(used) : 0;
}

std::string& name_of_program() {
  static std::string name = "longhaul";
  return name;
}

}  // namespace

std::string counted(int64_t count, std::string_view one, std::string_view many) {
  const std::string several = many.empty() ? std::string(one) + "s" : std::string(many);
  return fmt::format("{} {}", count_text(count), count == 1 ? one : std::string_view(several));
}

double spelling_difference(std::string_view a, std::string_view b) {
  constexpr size_t kLongestWord = 256;  // beyond it nothing is a typing error
  if (std::max(a.size(), b.size()) > kLongestWord) return 1;
  return static_cast<double>(spelling_distance(a, b)) / static_cast<double>(std::max<size_t>({a.size(), b.size(), 1}));
}

std::string nearest_spelling(std::string_view typed, const std::vector<std::string>& known) {
  std::string nearest;
  double least = kNearSpelling;
  for (const std::string& name : known) {
    if (const double difference = spelling_difference(typed, name); difference < least) {
      least = difference;
      nearest = name;
    }
  }
  return nearest;
}

std::string printable(std::string_view text, LineEnds line_ends) {
  std::string clean;
  while (!text.empty()) {
    const size_t length = character_bytes(text);
    const auto byte = static_cast<unsigned char>(text[0]);
    const bool kept = line_ends == LineEnds::kKept && (byte == '\n' || byte == '\t');
    if (length == 0 || ((byte < 0x20 || byte == 0x7f) && !kept)) {
      clean += fmt::format("\\x{:02x}", byte);
    } else {
      clean += text.substr(0, length);
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return clean;
}

std::optional<size_t> first_byte_not_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = character_bytes(text.substr(at));
    if (length == 0) return at;
    at += length;
  }
  return std::nullopt;
}

std::string shell_quoted(std::string_view word) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-=./:,+@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos) return std::string(word);
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

void set_program_name(std::string_view typed) { name_of_program() = typed; }
std::string program_name() { return shell_quoted(name_of_program()); }
std::string program_command(std::string_view arguments) { return fmt::format("{} {}", program_name(), arguments); }

}  // namespace longhaul
