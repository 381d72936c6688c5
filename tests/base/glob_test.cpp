#include "base/text/glob.h"

#include <gtest/gtest.h>

namespace longhaul {
namespace {

TEST(Glob, StarsStandForAnythingAndQuestionMarksForOneLetter) {
  EXPECT_TRUE(matches_glob("head.weight", "head.weight"));
  EXPECT_FALSE(matches_glob("head.weight", "head.weights"));
  EXPECT_FALSE(matches_glob("head.weight", "ahead.weight"));
  EXPECT_TRUE(matches_glob("*", ""));
  EXPECT_TRUE(matches_glob("*", "anything.at.all"));
  EXPECT_FALSE(matches_glob("", "a"));
  EXPECT_TRUE(matches_glob("", ""));
  EXPECT_TRUE(matches_glob("layers.1.*", "layers.1.mixer.query.weight"));
  EXPECT_FALSE(matches_glob("layers.1.*", "layers.11.mixer.query.weight"));
  EXPECT_TRUE(matches_glob("layers.1*.mixer.*", "layers.11.mixer.query.weight"));
  EXPECT_TRUE(matches_glob("layers.?.*norm.weight", "layers.3.mixer_norm.weight"));
  EXPECT_FALSE(matches_glob("layers.?.*norm.weight", "layers.13.mixer_norm.weight"));
  EXPECT_FALSE(matches_glob("?", ""));
  EXPECT_TRUE(matches_glob("***a", "aaa"));
}

// The last star has to take more than its first try.
TEST(Glob, AStarTakesAsMuchAsTheRestNeeds) {
  EXPECT_TRUE(matches_glob("*.weight", "a.weight.b.weight"));
  EXPECT_TRUE(matches_glob("a*b*c", "aXbXbYc"));
  EXPECT_FALSE(matches_glob("a*b*c", "aXbXbYcZ"));
  EXPECT_TRUE(matches_glob("*ab*ab", "abababab"));
  EXPECT_FALSE(matches_glob("*ab*ab", "aba"));
}

// A dot, a bracket and a plus are letters like others.
TEST(Glob, NothingElseIsSpecial) {
  EXPECT_FALSE(matches_glob("a.b", "axb"));
  EXPECT_TRUE(matches_glob("[ab]+", "[ab]+"));
  EXPECT_FALSE(matches_glob("[ab]", "a"));
}

}  // namespace
}  // namespace longhaul
