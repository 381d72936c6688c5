#include "base/text/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace longhaul {
namespace {

// Written from the table of well-formed sequences of the Unicode standard (3-7), not from the code.
bool well_formed(const std::string& s) {
  const auto in = [&](size_t i, unsigned low, unsigned high) {
    const auto byte = static_cast<unsigned char>(s[i]);
    return byte >= low && byte <= high;
  };
  switch (s.size()) {
    case 1:
      return in(0, 0x00, 0x7f);
    case 2:
      return in(0, 0xc2, 0xdf) && in(1, 0x80, 0xbf);
    case 3:
      return ((in(0, 0xe0, 0xe0) && in(1, 0xa0, 0xbf)) || (in(0, 0xe1, 0xec) && in(1, 0x80, 0xbf)) ||
              (in(0, 0xed, 0xed) && in(1, 0x80, 0x9f)) || (in(0, 0xee, 0xef) && in(1, 0x80, 0xbf))) &&
             in(2, 0x80, 0xbf);
    default:
      return ((in(0, 0xf0, 0xf0) && in(1, 0x90, 0xbf)) || (in(0, 0xf1, 0xf3) && in(1, 0x80, 0xbf)) ||
              (in(0, 0xf4, 0xf4) && in(1, 0x80, 0x8f))) &&
             in(2, 0x80, 0xbf) && in(3, 0x80, 0xbf);
  }
}

TEST(Utf8, EveryLeadAndSecondByteAgreesWithTheStandard) {
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      for (const char* tail : {"", "\x80", "\xbf", "\x80\x80", "\xbf\xbf", "\x7f", "\x80\xc0"}) {
        const std::string text = std::string{static_cast<char>(first), static_cast<char>(second)} + tail;
        const Decoded decoded = decode_utf8(text.data(), text.data() + text.size());
        size_t length = 0;
        for (size_t n = 1; n <= text.size(); ++n) length = well_formed(text.substr(0, n)) ? n : length;
        if (length == 0) {
          ASSERT_EQ(decoded.code, kBadByte) << first << " " << second;
          ASSERT_EQ(decoded.length, 1);
        } else {
          ASSERT_EQ(decoded.length, static_cast<int>(length)) << first << " " << second;
          ASSERT_LT(decoded.code, kBadByte);
        }
      }
    }
  }
}

TEST(Utf8, SurrogatesOverlongFormsAndWhatIsBeyondUnicodeAreRefused) {
  for (const char* bad : {"\xed\xa0\x80", "\xed\xbf\xbf", "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80",
                          "\xe0\x9f\xbf", "\xf0\x80\x80\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80",
                          "\xf5\x80\x80\x80", "\xff", "\x80", "\xe4\xb8"}) {
    EXPECT_FALSE(valid_utf8(bad));
    EXPECT_FALSE(valid_utf8(std::string("abc") + bad));
  }
  EXPECT_TRUE(valid_utf8("a\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf é中😀"));
  const std::string middle = "中";
  EXPECT_EQ(decode_utf8(middle.data(), middle.data() + 3).code, U'中');
}

}  // namespace
}  // namespace longhaul
