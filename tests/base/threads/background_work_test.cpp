// Work of background threads is told while it lasts, the oldest first.
#include "base/threads/background_work.h"

#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/threads/worker.h"

namespace longhaul {
namespace {

TEST(BackgroundWork, IsToldWhileItLasts) {
  EXPECT_TRUE(background_work().empty());
  const int64_t before = monotonic_ns();
  {
    const BackgroundTask save("write checkpoint", 12.5);
    {
      const BackgroundTask read("read ahead");
      const std::vector<BackgroundWork> both = background_work();
      ASSERT_EQ(both.size(), 2U);
      EXPECT_EQ(both[0].name, "write checkpoint");
      EXPECT_EQ(both[0].allowed_s, 12.5);
      EXPECT_GE(both[0].since_ns, before);
      EXPECT_EQ(both[1].name, "read ahead");
      EXPECT_GE(both[1].since_ns, both[0].since_ns);
    }
    EXPECT_EQ(background_work().size(), 1U);
  }
  EXPECT_TRUE(background_work().empty());
}

TEST(BackgroundWork, ATaskThatFailsHasEnded) {
  Worker worker("test");
  worker.post([] {
    const BackgroundTask task("write checkpoint");
    throw std::runtime_error("no room");
  });
  EXPECT_THROW(worker.wait(), std::runtime_error);
  EXPECT_TRUE(background_work().empty());
}

TEST(BackgroundWork, BytesHaveTheirTime) {
  EXPECT_EQ(seconds_to_move(0), 10);
  EXPECT_EQ(seconds_to_move(2'000'000'000), 110);
}

}  // namespace
}  // namespace longhaul
