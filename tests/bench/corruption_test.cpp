// ctest: label=full timeout=120
// No check raises an alarm where nothing is wrong, and flipped bits of copies are all seen and named: there is nothing to measure about it.
#include "bench/corruption.h"

#include <gtest/gtest.h>

namespace longhaul::bench {
namespace {

TEST(Corruption, CopiesShowEveryBitAndExponentsOfTheRestMost) {
  const Corruption measured = measure_corruption({.flips = 8, .turns = 0});
  EXPECT_EQ(measured.false_alarms, 0);
  EXPECT_TRUE(measured.good());
  for (const CorruptionRow& row : measured.rows) {
    for (const auto& rate : {row.sign, row.exponent, row.mantissa}) {
      EXPECT_EQ(rate.flips, 8);
      EXPECT_LE(rate.caught, 8);
      if (row.check != "replicas" && row.check != "memory") continue;
      EXPECT_EQ(rate.caught, 8) << row.place;
      EXPECT_EQ(rate.named, 8) << row.place;
    }
  }
  EXPECT_EQ(measured.rows.size(), 16u);
}

}  // namespace
}  // namespace longhaul::bench
