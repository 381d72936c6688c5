#include "data/corpus/text_check.h"

#include <gtest/gtest.h>

namespace longhaul::data {
namespace {

TEST(TextCheck, TextsOfAllKindsPass) {
  std::string latin, log, few = "x\xe4\xb8";
  for (int i = 0; i < 200; ++i)
    latin +=
        "un texte fran\xe7"
        "ais d'avant l'Unicode, tr\xe8s accentu\xe9\n";
  for (int i = 0; i < 200; ++i) log += "\x1b[31mred\x1b[0m\ttab\fform feed\r\n";
  for (const std::string& text : {std::string(), std::string("a"), latin, log, few,
                                  std::string("\xef\xbb\xbf"
                                              "byte order mark"),
                                  std::string("中文 русский 😀"), std::string("a\x01\x02")}) {
    EXPECT_EQ(why_not_text(text), "") << text;
  }
}

TEST(TextCheck, WhatIsNotTextDoesNot) {
  using namespace std::string_literals;
  const std::string words = "words and words and words and words\n";
  EXPECT_EQ(why_not_text("\xff\xfew\0o\0"s), "UTF-16");
  EXPECT_EQ(why_not_text("\xfe\xff\0w\0o"s), "UTF-16");
  EXPECT_EQ(why_not_text("\xff\xfe\0\0w\0\0\0"s), "UTF-32");
  EXPECT_EQ(why_not_text("\0\0\xfe\xff\0\0\0w"s), "UTF-32");
  EXPECT_EQ(why_not_text(words + "\0"s), "a NUL byte at 36");
  // At the bounds: 5 % and 30 %, either from 16 bytes on.
  const std::string even(950, 'a'), most(700, 'a');
  EXPECT_EQ(why_not_text(even + std::string(50, '\x02')), "");
  EXPECT_EQ(why_not_text(even + std::string(51, '\x02')), "5 % control characters");
  EXPECT_EQ(why_not_text(most + std::string(300, '\x80')), "");
  EXPECT_EQ(why_not_text(most + std::string(301, '\x80')), "30 % of the bytes are not UTF-8");
  EXPECT_EQ(why_not_text(std::string(16, '\x80')), "");
  EXPECT_EQ(why_not_text(std::string(17, '\x80')), "100 % of the bytes are not UTF-8");
}

}  // namespace
}  // namespace longhaul::data
