#include "base/text/utf8.h"

#include <cstdint>

namespace longhaul {
namespace {

bool continuation(char c) { return (static_cast<uint8_t>(c) & 0xC0) == 0x80; }

}  // namespace

Decoded decode_utf8(const char* at, const char* end) {
  const uint8_t first = static_cast<uint8_t>(*at);
  if (first < 0x80) return {first, 1};
  const auto room = end - at;
  if (first >= 0xC2 && first < 0xE0) {
    if (room >= 2 && continuation(at[1]))
      return {static_cast<char32_t>((first & 0x1F) << 6 | (at[1] & 0x3F)), 2};
  } else if (first >= 0xE0 && first < 0xF0) {
    if (room >= 3 && continuation(at[1]) && continuation(at[2])) {
      const char32_t code = (first & 0x0F) << 12 | (at[1] & 0x3F) << 6 | (at[2] & 0x3F);
      if (code >= 0x800 && (code < 0xD800 || code >= 0xE000)) return {code, 3};
    }
  } else if (first >= 0xF0 && first < 0xF5) {
    if (room >= 4 && continuation(at[1]) && continuation(at[2]) && continuation(at[3])) {
      const char32_t code =
          (first & 0x07) << 18 | (at[1] & 0x3F) << 12 | (at[2] & 0x3F) << 6 | (at[3] & 0x3F);
      if (code >= 0x10000 && code < 0x110000) return {code, 4};
    }
  }
  return {kBadByte, 1};
}

bool valid_utf8(std::string_view text) {
  const char* at = text.data();
  const char* end = at + text.size();
  while (at < end) {
    if (static_cast<uint8_t>(*at) < 0x80) {
      ++at;
      continue;
    }
    const Decoded decoded = decode_utf8(at, end);
    if (decoded.code == kBadByte) return false;
    at += decoded.length;
  }
  return true;
}

std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  return text.starts_with(kMark) ? text.substr(kMark.size()) : text;
}

}  // namespace longhaul
