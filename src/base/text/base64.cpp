#include "base/text/base64.h"

namespace longhaul {

std::string base64(std::string_view text) {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < text.size(); i += 3) {
    const auto byte = [&](size_t at) { return at < text.size() ? static_cast<unsigned char>(text[at]) : 0U; };
    const unsigned bits = byte(i) << 16 | byte(i + 1) << 8 | byte(i + 2);
    for (size_t digit = 0; digit < 4; ++digit) out += digit > text.size() - i ? '=' : kDigits[bits >> (18 - 6 * digit) & 63];
  }
  return out;
}

}  // namespace longhaul
