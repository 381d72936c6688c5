#include "base/text/number.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace longhaul {
namespace {

TEST(Number, OfAWholeText) {
  EXPECT_EQ(parse_number<int64_t>("-12"), -12);
  EXPECT_EQ(parse_number<uint64_t>("18446744073709551615"), UINT64_MAX);
  EXPECT_EQ(parse_number<double>("1e-3"), 1e-3);
  EXPECT_EQ(parse_number<unsigned>("fF", 16), 255u);
  for (const char* none : {"", " 1", "1 ", "+1", "1.5", "0x10", "one", "9223372036854775808"})
    EXPECT_EQ(parse_number<int64_t>(none), std::nullopt) << none;
  EXPECT_EQ(parse_number<uint16_t>("65536"), std::nullopt);
  EXPECT_EQ(parse_number<uint64_t>("-1"), std::nullopt);
  EXPECT_EQ(parse_number<double>("1e999"), std::nullopt);
  EXPECT_EQ(parse_number<double>("1,5"), std::nullopt);
}

TEST(Number, AtTheFrontOfAText) {
  std::string_view text = "90m";
  EXPECT_EQ(take_number<int64_t>(text), 90);
  EXPECT_EQ(text, "m");
  EXPECT_EQ(take_number<int64_t>(text), std::nullopt);
  EXPECT_EQ(text, "m");
  EXPECT_EQ(leading_number<double>("31.5 W"), 31.5);
  EXPECT_EQ(leading_number<int64_t>("[N/A]"), std::nullopt);
}

}  // namespace
}  // namespace longhaul
