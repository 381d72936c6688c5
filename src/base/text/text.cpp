#include "base/text/text.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/process/program_name.h"
#include "base/progress.h"
#include "base/text/utf8.h"

namespace longhaul {
namespace {

// Optimal string alignment distance.
size_t spelling_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      d[i][j] =
          std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
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
  return static_cast<double>(spelling_distance(a, b)) /
         static_cast<double>(std::max<size_t>({a.size(), b.size(), 1}));
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
    const Decoded next = decode_utf8(text.data(), text.data() + text.size());
    const size_t length = next.code == kBadByte ? 0 : static_cast<size_t>(next.length);
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

std::string brief(std::string_view text, size_t most_bytes) {
  if (text.size() <= most_bytes) return printable(text);
  // not within a character
  while (most_bytes > 0 && (static_cast<unsigned char>(text[most_bytes]) & 0xc0) == 0x80) --most_bytes;
  return fmt::format("{}… ({} bytes)", printable(text.substr(0, most_bytes)), text.size());
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  for (;;) {
    const size_t end = text.find(separator);
    pieces.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return pieces;
    text.remove_prefix(end + 1);
  }
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlanks);
  return begin == std::string_view::npos ? std::string_view()
                                         : text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

std::string shell_quoted(std::string_view word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-=./:,+@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos) return std::string(word);
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

void set_program_name(std::string_view typed) { name_of_program() = typed; }
const std::string& program_as_typed() { return name_of_program(); }
std::string program_name() { return shell_quoted(name_of_program()); }
std::string program_command(std::string_view arguments) {
  return fmt::format("{} {}", program_name(), arguments);
}

}  // namespace longhaul
