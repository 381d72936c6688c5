// ctest: label=fast timeout=20
#include "base/threads/pace.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "base/process/training_wait.h"

namespace longhaul {
namespace {

using std::chrono::milliseconds;

TEST(Pace, KeepsToItsRate) {
  Pace pace(1e6);
  const Stopwatch watch;
  for (int i = 0; i < 3; ++i) pace.moved(10'000);
  EXPECT_GE(watch.seconds(), 0.03);
  EXPECT_EQ(pace.paused_s(), 0);
}

TEST(Pace, StandsStillWhileTrainingWaitsForOthers) {
  const TrainingThread trains;
  std::optional<TrainingWait> waiting(std::in_place);
  std::atomic<bool> begun = false, moved = false;
  double paused_s = 0;
  std::thread beside([&] {
    Pace pace(0);
    begun = true;
    // five seconds, if training waited so long
    for (int piece = 0; piece < 100; ++piece) pace.moved(40 << 10);
    moved = true;
    paused_s = pace.paused_s();
  });
  while (!begun) std::this_thread::yield();
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_FALSE(moved);
  waiting.reset();
  beside.join();
  EXPECT_GT(paused_s, 0);
  Pace after(0);
  after.moved(4 << 20);
  EXPECT_EQ(after.paused_s(), 0);
}

// Two ranks whose trainers wait for what their savers bring: it comes all the same.
TEST(Pace, DoesNotWaitForEver) {
  const TrainingThread trains;
  const TrainingWait waiting;
  Pace pace(0);
  const Stopwatch watch;
  for (int i = 0; i < 3; ++i) pace.moved(1);
  EXPECT_GE(pace.paused_s(), 3 * Pace::kPause_s);
  EXPECT_LT(watch.seconds(), 3);
}

TEST(Pace, CallsOfOtherThreadsAreNoneOfTrainings) {
  const TrainingWait of_a_saver;
  EXPECT_FALSE(training_waits());
}

}  // namespace
}  // namespace longhaul
