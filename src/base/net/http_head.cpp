#include "base/net/http_head.h"

#include <algorithm>
#include <cctype>
#include <optional>

namespace longhaul {
namespace {

// Returns the position after the empty line that ends the head, or npos while that line has not arrived.
size_t end_of_head(std::string_view bytes) {
  for (size_t at = bytes.find('\n'); at != std::string_view::npos; at = bytes.find('\n', at + 1)) {
    if (bytes.substr(at + 1).starts_with("\r\n")) return at + 3;
    if (bytes.substr(at + 1).starts_with("\n")) return at + 2;
  }
  return std::string_view::npos;
}

bool is_token(std::string_view text) {
  const auto fits = [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("!#$%&'*+-.^_`|~").find(c) < 16;
  };
  return !text.empty() && std::ranges::all_of(text, fits);
}

bool is_visible(std::string_view text, bool spaces) {
  return std::ranges::all_of(
      text, [&](unsigned char c) { return c > 32 && c != 127 ? true : spaces && (c == ' ' || c == '\t'); });
}

std::optional<std::string> percent_decoded(std::string_view text, bool plus_is_space) {
  const auto digit = [&](size_t at) {
    const char c = at < text.size() ? text[at] : 'x';
    if (c >= '0' && c <= '9') return c - '0';
    const int lower = std::tolower(static_cast<unsigned char>(c));
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
  };
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%') {
      if (digit(i + 1) < 0 || digit(i + 2) < 0) return std::nullopt;
      decoded += static_cast<char>(digit(i + 1) * 16 + digit(i + 2));
      i += 2;
    } else {
      decoded += plus_is_space && text[i] == '+' ? ' ' : text[i];
    }
  }
  return decoded;
}

// "/path?name=value&…"; false: it is no such target.
bool read_target(std::string_view target, HttpHead& head) {
  if (!target.starts_with('/') || !is_visible(target, false)) return false;
  target = target.substr(0, target.find('#'));
  const size_t mark = std::min(target.find('?'), target.size());
  const auto path = percent_decoded(target.substr(0, mark), false);
  if (!path) return false;
  head.path = *path;
  std::string_view query = target.substr(std::min(mark + 1, target.size()));
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(pair.size() + 1, query.size()));
    const size_t equals = std::min(pair.find('='), pair.size());
    const auto name = percent_decoded(pair.substr(0, equals), true);
    const auto value = percent_decoded(pair.substr(std::min(equals + 1, pair.size())), true);
    if (!name || !value) return false;
    if (!pair.empty()) head.query.emplace(*name, *value);
  }
  return true;
}

// "GET /path HTTP/1.1" → 0, or the status that refuses it.
int read_request_line(std::string_view line, HttpHead& head) {
  const size_t first = line.find(' '), last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) return 400;
  const std::string_view version = line.substr(last + 1);
  head.method = line.substr(0, first);
  if (!is_token(head.method) || !read_target(line.substr(first + 1, last - first - 1), head)) return 400;
  head.version = version;
  if (version == "HTTP/1.1" || version == "HTTP/1.0") return 0;
  return version.starts_with("HTTP/") ? 505 : 400;
}

bool read_header(std::string_view line, HttpHead& head) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || !is_token(line.substr(0, colon)) || !is_visible(line, true))
    return false;
  std::string name(line.substr(0, colon));
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::string_view value = line.substr(colon + 1);
  while (!value.empty() && (value.front() == ' ' || value.front() == '\t')) value.remove_prefix(1);
  while (!value.empty() && (value.back() == ' ' || value.back() == '\t')) value.remove_suffix(1);
  const auto [place, is_new] = head.headers.try_emplace(name, value);
  if (!is_new) place->second.append(", ").append(value);
  return is_new || (name != "host" && name != "authorization");
}

}  // namespace

std::string HttpHead::header(const std::string& lower_case_name) const {
  const auto found = headers.find(lower_case_name);
  return found == headers.end() ? "" : found->second;
}

bool head_ends(std::string_view bytes) {
  return bytes.size() > kLongestHead || end_of_head(bytes) != std::string_view::npos;
}

HttpHead read_head(std::string_view bytes) {
  HttpHead head;
  const size_t end = end_of_head(bytes);
  head.bytes = std::min(end, bytes.size());
  if (end > kLongestHead) {
    head.refused = bytes.substr(0, kLongestHead).find('\n') == std::string_view::npos ? 414 : 431;
    return head;
  }
  std::string_view rest = bytes.substr(0, end);
  bool first = true;
  while (!rest.empty()) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(line.size() + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() && !first) break;
    const int refused = first ? read_request_line(line, head) : read_header(line, head) ? 0 : 400;
    first = false;
    if (refused == 0) continue;
    head.refused = refused;
    break;
  }
  return head;
}

}  // namespace longhaul
