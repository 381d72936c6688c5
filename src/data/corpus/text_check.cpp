#include "data/corpus/text_check.h"

#include <fmt/format.h>

#include "base/text/utf8.h"

namespace longhaul::data {
namespace {

constexpr size_t kFew = 16;  // bytes that prove nothing in a short file
constexpr size_t kMostControlPercent = 5, kMostBadPercent = 30;

// Besides white space, terminals' colours and form feeds are found in texts.
bool control(unsigned char c) { return (c < 0x20 && !(c >= '\b' && c <= '\r') && c != 0x1b) || c == 0x7f; }

}  // namespace

std::string why_not_text(std::string_view head) {
  using namespace std::string_view_literals;
  if (head.starts_with("\xff\xfe\0\0"sv) || head.starts_with("\0\0\xfe\xff"sv)) return "UTF-32";
  if (head.starts_with("\xff\xfe"sv) || head.starts_with("\xfe\xff"sv)) return "UTF-16";
  size_t controls = 0, bad = 0;
  const char* end = head.data() + head.size();
  for (const char* at = head.data(); at < end;) {
    if (*at == '\0') return fmt::format("a NUL byte at {}", at - head.data());
    const Decoded decoded = decode_utf8(at, end);
    controls += decoded.length == 1 && control(static_cast<unsigned char>(*at)) ? 1 : 0;
    bad += decoded.code == kBadByte ? 1 : 0;
    at += decoded.length;
  }
  const auto exceeds = [&](size_t count, size_t percent) {
    return count > kFew && count * 100 > head.size() * percent;
  };
  if (exceeds(controls, kMostControlPercent))
    return fmt::format("{} % control characters", controls * 100 / head.size());
  if (exceeds(bad, kMostBadPercent))
    return fmt::format("{} % of the bytes are not UTF-8", bad * 100 / head.size());
  return "";
}

}  // namespace longhaul::data
