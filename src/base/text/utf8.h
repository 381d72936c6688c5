// UTF-8: decodes one character at a time without ever failing, and checks whether a text is valid. Valid
// means as Unicode defines it: no overlong forms, no surrogates, nothing above U+10FFFF. No function
// allocates; all are thread-safe.
#pragma once

#include <string_view>

namespace longhaul {

inline constexpr char32_t kBadByte = 0x110000;  // the code for a byte that is not UTF-8

struct Decoded {
  char32_t code;
  int length;  // bytes
};
// Needs at < end. A byte that begins no character is kBadByte, of length 1.
Decoded decode_utf8(const char* at, const char* end);
bool valid_utf8(std::string_view text);
// Removes the byte order mark that some editors write at the beginning of a file, because it is no text.
std::string_view without_byte_order_mark(std::string_view text);

}  // namespace longhaul
