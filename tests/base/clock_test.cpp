#include "base/clock.h"

#include <gtest/gtest.h>

#include <cmath>

namespace longhaul {
namespace {

TEST(Clock, MonotonicNeverGoesBack) {
  int64_t before = monotonic_ns();
  for (int i = 0; i < 1000; ++i) {
    const int64_t now = monotonic_ns();
    ASSERT_GE(now, before);
    before = now;
  }
  const Stopwatch watch;
  while (watch.milliseconds() < 2) {
  }
  EXPECT_GE(watch.seconds(), 0.002);
}

TEST(Clock, WallTimeText) {
  EXPECT_EQ(wall_time_text(0), "1970-01-01T00:00:00Z");
  EXPECT_EQ(wall_time_text(951782400.9), "2000-02-29T00:00:00Z");
  EXPECT_EQ(wall_time_text(-0.5), "1969-12-31T23:59:59Z");
  EXPECT_GT(wall_time_s(), 1.7e9);
}

TEST(Clock, DurationText) {
  EXPECT_EQ(duration_text(0.85), "850 ms");
  EXPECT_EQ(duration_text(0.9996), "1.0 s");
  EXPECT_EQ(duration_text(12.34), "12.3 s");
  EXPECT_EQ(duration_text(59.96), "1 min 00 s");
  EXPECT_EQ(duration_text(245), "4 min 05 s");
  EXPECT_EQ(duration_text(3 * 3600 + 12 * 60 + 10), "3 h 12 min");
  EXPECT_EQ(duration_text(3600 - 0.2), "1 h 00 min");
  EXPECT_EQ(duration_text(-2), "-2.0 s");
  EXPECT_EQ(duration_text(INFINITY), "unknown");
}

}  // namespace
}  // namespace longhaul
