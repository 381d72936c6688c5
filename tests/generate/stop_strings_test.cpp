#include "generate/stop_strings.h"

#include <gtest/gtest.h>

namespace longhaul::generate {
namespace {

// The text that comes out when `text` comes in pieces of so many bytes.
std::string stopped(const std::string& text, const std::vector<std::string>& stops, size_t piece,
                    bool keeps = false) {
  StopStrings stop(stops, keeps);
  std::string out;
  for (size_t at = 0; at < text.size() && !stop.found(); at += piece) out += stop.add(text.substr(at, piece));
  return stop.found() ? out : out + stop.rest();
}

TEST(StopStrings, EndAtTheFirstWhereverPiecesAreCut) {
  for (size_t piece = 1; piece < 12; ++piece) {
    EXPECT_EQ(stopped("one\nUser: two", {"User:", "\n\n"}, piece), "one\n") << piece;
    EXPECT_EQ(stopped("one\nUser: two", {"User:"}, piece, true), "one\nUser:") << piece;
    EXPECT_EQ(stopped("aaab", {"aab"}, piece), "a") << piece;
    EXPECT_EQ(stopped("abcabd", {"abd", "cab"}, piece), "ab") << piece;
    EXPECT_EQ(stopped("no such text", {"text!"}, piece), "no such text")
        << "what was held back comes at the end, pieces of " << piece;
  }
}

TEST(StopStrings, HoldBackNoMoreThanMayBecomeOne) {
  StopStrings stop({"<end>", "xyz"});
  EXPECT_EQ(stop.add("a<e"), "a");
  EXPECT_EQ(stop.add("n"), "");
  EXPECT_EQ(stop.add("x"), "<en");
  EXPECT_EQ(stop.add("yz tail"), "");
  EXPECT_TRUE(stop.found());
  EXPECT_EQ(stop.which(), "xyz");
  EXPECT_EQ(stop.add("more"), "");
}

TEST(StopStrings, WithoutAnyAllComesAtOnce) {
  StopStrings stop({});
  EXPECT_EQ(stop.add("text"), "text");
  EXPECT_FALSE(stop.found());
}

}  // namespace
}  // namespace longhaul::generate
