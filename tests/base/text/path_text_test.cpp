#include "base/text/path_text.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"
#include "base/text/utf8.h"

namespace longhaul {
namespace {

TEST(PathText, AnyBytesComeBackAndTheTextIsUtf8) {
  for (int first = 1; first < 256; ++first) {
    for (int second = 1; second < 256; ++second) {
      const std::string bytes = {'/', 'a', static_cast<char>(first), static_cast<char>(second), 'b'};
      const std::string text = text_of_path(bytes);
      ASSERT_TRUE(valid_utf8(text));
      ASSERT_EQ(text.find_first_of("\n\t\x1b"), std::string::npos);
      ASSERT_EQ(path_of_text(text).native(), bytes);
    }
  }
  for (const std::string bytes : {"file:odd", "file:/a%20\xff", "texts\xff", "a b", "é"}) {
    EXPECT_EQ(path_of_text(text_of_path(bytes)).native(), bytes);
  }
}

TEST(PathText, OrdinaryPathsAreTheirOwnText) {
  for (const char* path : {"/a/b c", "x,y", "été/中", "100%", "libtorch", "a~b", "~other/x"}) {
    EXPECT_EQ(text_of_path(path), path);
    EXPECT_EQ(path_of_text(path).native(), path);
  }
  EXPECT_EQ(text_of_path("/caf\xe9 1"), "file:/caf%E9%201");
  EXPECT_EQ(path_of_text("file:///caf%e9%201").native(), "/caf\xe9 1");
}

TEST(PathText, TildeIsHome) {
  const char* before = std::getenv("HOME");
  const std::string home = before == nullptr ? "" : before;
  ::setenv("HOME", "/home/someone", 1);
  EXPECT_EQ(path_of_text("~/texts").native(), "/home/someone/texts");
  EXPECT_EQ(path_of_text("~").native(), "/home/someone");
  EXPECT_EQ(path_of_text("a/~/b").native(), "a/~/b");
  ::unsetenv("HOME");
  EXPECT_EQ(path_of_text("~/texts").native(), "~/texts");
  if (before != nullptr) ::setenv("HOME", home.c_str(), 1);
}

TEST(PathText, BadEscapesAreRefused) {
  for (const char* bad : {"file:a%", "file:a%4", "file:a%zz", "file:a%00", "file:a%+1"}) {
    try {
      path_of_text(bad);
      ADD_FAILURE() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      EXPECT_EQ(error.fields().where, bad);
    }
  }
}

}  // namespace
}  // namespace longhaul
