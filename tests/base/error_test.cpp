#include "base/error.h"

#include <gtest/gtest.h>

namespace longhaul {
namespace {

TEST(Error, PrintsEveryFieldThatIsSet) {
  const Error error({.code = ExitCode::kData,
                     .what = "cannot read the corpus",
                     .expected = "a folder",
                     .found = "nothing",
                     .where = "data.source",
                     .hint = "set data.source"});
  EXPECT_STREQ(error.what(),
               "cannot read the corpus\n  expected  a folder\n  found     nothing\n  where     data.source\n "
               " try       set data.source");
  EXPECT_EQ(static_cast<int>(error.code()), 65);
}

TEST(Error, LeavesEmptyFieldsOut) {
  EXPECT_STREQ(Error({.code = ExitCode::kUsage, .what = "unknown key"}).what(), "unknown key");
}

TEST(Error, AssertionNamesFileAndValues) {
  try {
    LONGHAUL_ASSERT(1 > 2, "one {} two {}", 1, 2);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kInternal);
    EXPECT_EQ(error.fields().what, "internal error: one 1 two 2");
    EXPECT_NE(error.fields().where.find("error_test.cpp"), std::string::npos);
  }
}

}  // namespace
}  // namespace longhaul
