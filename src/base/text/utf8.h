// UTF-8: reading it one character at a time, never failing, and saying whether a text is it. Well-formed as Unicode defines it: no
// overlong forms, no surrogates, nothing above U+10FFFF. Nothing here allocates; all functions may be called from any thread.
#pragma once

#include <string_view>

namespace longhaul {

inline constexpr char32_t kBadByte = 0x110000;  // the code of a byte that is not UTF-8

struct Decoded {
  char32_t code;
  int length;  // bytes
};
Decoded decode_utf8(const char* at, const char* end);  // at < end; a byte that begins no character is kBadByte, of length 1
bool valid_utf8(std::string_view text);
// Of a file's beginning: without the byte order mark that some editors put in front, which is no text.
std::string_view without_byte_order_mark(std::string_view text);

}  // namespace longhaul
