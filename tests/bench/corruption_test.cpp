// ctest: label=full timeout=120
// No check raises an alarm where nothing is wrong, and flipped bits of copies are all seen and named: there
// is nothing to measure about it.
#include "bench/models/corruption.h"

#include <gtest/gtest.h>

namespace longhaul::bench {
namespace {

TEST(Corruption, CopiesShowEveryBitAndExponentsOfTheRestMost) {
  const Corruption measured = measure_corruption({.flips = 8, .turns = 0});
  EXPECT_EQ(measured.false_alarms, 0);
  for (const CorruptionRow& row : measured.rows) {
    // The least bit of the exponent of a small number may hide in what sums round: one in some dozens. Three
    // of eight would be a fault.
    if (row.check == "messages" || row.check == "replay") {
      EXPECT_GE(row.exponent.caught, 6) << row.place;
    }
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

TEST(Corruption, IsGoodWithoutFalseAlarmsAndWithNineteenOfTwentyExponents) {
  Corruption measured;
  measured.rows.push_back({.by = "block sums", .exponent = {.flips = 100, .caught = 95}});
  // nothing is promised where there is nothing to go by
  measured.rows.push_back({.by = "alone", .exponent = {.flips = 100, .caught = 1}});
  EXPECT_TRUE(measured.good());
  measured.rows[0].exponent.caught = 94;
  EXPECT_FALSE(measured.good());
  measured.rows[0].exponent.caught = 100;
  measured.false_alarms = 1;
  EXPECT_FALSE(measured.good());
}

}  // namespace
}  // namespace longhaul::bench
