// Prefixes of sequences of brackets: every shape comes as often as any other.
#include "puzzles/dyck_language/dyck_language.h"

#include <gtest/gtest.h>

#include <map>

#include "puzzles/maker.h"

namespace longhaul::puzzles::dyck_language {
namespace {

std::map<std::string, int64_t> shapes_of(int64_t kinds, int64_t length, int64_t open, int64_t count) {
  std::map<std::string, int64_t> seen;
  for (int64_t index = 0; index < count; ++index) {
    Draw draw({.task = "shapes", .index = static_cast<uint64_t>(index)});
    const std::string prefix = random_prefix(kinds, length, open, draw);
    const std::optional<std::string> left = open_brackets(prefix);
    EXPECT_TRUE(left.has_value() && static_cast<int64_t>(left->size()) == open) << prefix;
    ++seen[prefix];
  }
  return seen;
}

TEST(DyckLanguage, ShapesHaveEqualChances) {
  struct Case {
    int64_t length, open;
    size_t shapes;  // walks of that many steps up and down from 0 to `open` that never go below 0
  };
  for (const Case& one : {Case{6, 0, 5}, Case{4, 2, 3}, Case{5, 1, 5}, Case{3, 3, 1}, Case{8, 0, 14}}) {
    const auto seen = shapes_of(1, one.length, one.open, 1000 * static_cast<int64_t>(one.shapes));
    EXPECT_EQ(seen.size(), one.shapes) << one.length << " open " << one.open;
    // five standard deviations of a binomial are at most 158
    for (const auto& [shape, count] : seen) EXPECT_NEAR(static_cast<double>(count), 1000, 160) << shape;
  }
}

TEST(DyckLanguage, KindsComeAlike) {
  const auto seen = shapes_of(2, 2, 0, 2000);
  EXPECT_EQ(seen.size(), 2u);
  EXPECT_NEAR(static_cast<double>(seen.at("()")), 1000, 115);
}

}  // namespace
}  // namespace longhaul::puzzles::dyck_language
