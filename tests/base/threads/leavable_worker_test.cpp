#include "base/threads/leavable_worker.h"

#include <gtest/gtest.h>

#include <future>
#include <stdexcept>

namespace longhaul {
namespace {

TEST(LeavableWorker, ItsEndWaitsForWhatEnds) {
  bool done = false;
  LeavableWorker worker("leavable");
  worker.post([&] { done = true; });
  EXPECT_TRUE(worker.end(600));
  EXPECT_TRUE(done);
  EXPECT_TRUE(worker.end(600)) << "there is nothing more to wait for";
}

TEST(LeavableWorker, ATaskThatThrowsHasEnded) {
  LeavableWorker worker("leavable");
  worker.post([] { throw std::runtime_error("no such device"); });
  EXPECT_TRUE(worker.end(600));
}

// Who hangs is left behind, and what it holds lives as long as it does.
TEST(LeavableWorker, WhoHangsIsLeftBehind) {
  std::promise<void> answer, over;
  auto held = std::make_shared<int>(7);
  const std::weak_ptr<int> watched = held;
  {
    LeavableWorker worker("leavable");
    worker.post([held, answer = answer.get_future().share(), &over] {
      answer.wait();
      EXPECT_EQ(*held, 7);
      over.set_value();
    });
    held.reset();
    EXPECT_FALSE(worker.end(0.01));
  }
  EXPECT_FALSE(watched.expired());
  answer.set_value();
  over.get_future().wait();
}

}  // namespace
}  // namespace longhaul
