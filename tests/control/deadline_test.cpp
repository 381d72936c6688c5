#include "control/engines/deadline.h"

#include <gtest/gtest.h>

namespace longhaul::control {
namespace {

TEST(Deadline, IsAMinuteBeforeTheEnd) {
  Deadline deadline(1000);
  EXPECT_FALSE(deadline.near(900));
  EXPECT_FALSE(deadline.near(900.1));
  EXPECT_TRUE(deadline.near(939.95)) << "the gap of 39.85 s counts one and a half times";
  Deadline quick(1000);
  for (double now = 900; now < 939; now += 0.1) ASSERT_FALSE(quick.near(now)) << now;
  EXPECT_TRUE(quick.near(940));
}

TEST(Deadline, LearnsHowLongAStepAndItsSaveTake) {
  Deadline deadline(1000);
  EXPECT_FALSE(deadline.near(100));
  // 200 s at most: near from 640 on
  for (const double now : {300, 450, 600}) EXPECT_FALSE(deadline.near(now)) << now;
  EXPECT_FALSE(deadline.near(639));
  EXPECT_TRUE(deadline.near(640));
  EXPECT_TRUE(deadline.near(2000));
}

TEST(Deadline, ThatNobodySetNeverComes) {
  Deadline deadline(std::nullopt);
  EXPECT_FALSE(deadline.near(1e18));
}

}  // namespace
}  // namespace longhaul::control
