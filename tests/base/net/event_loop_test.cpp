// One thread that waits for descriptors, moments and signals: in which order, how often, and what handlers
// may do to each other.
#include "base/net/event_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/clock.h"

namespace longhaul {
namespace {

using ::testing::ElementsAre;

struct TestPipe {
  int ends[2];
  TestPipe() { EXPECT_EQ(::pipe(ends), 0); }
  ~TestPipe() {
    ::close(ends[0]);
    ::close(ends[1]);
  }
  void put() const { EXPECT_EQ(::write(ends[1], "x", 1), 1); }
  void take() const {
    char byte;
    EXPECT_EQ(::read(ends[0], &byte, 1), 1);
  }
};

TEST(EventLoop, TimersComeInTheirOrder) {
  EventLoop loop;
  std::vector<int> seen;
  loop.after(0.03, [&] { seen.push_back(3); });
  loop.after(0.01, [&] { seen.push_back(1); });
  const uint64_t never = loop.after(0.02, [&] { seen.push_back(2); });
  loop.cancel(never);
  loop.after(0.05, [&] { loop.stop(); });
  const Stopwatch watch;
  loop.run();
  EXPECT_THAT(seen, ElementsAre(1, 3));
  EXPECT_GE(watch.seconds(), 0.05);
}

TEST(EventLoop, ARepeatedTimerStopsWhenItIsCancelledByItself) {
  EventLoop loop;
  int count = 0;
  uint64_t timer = 0;
  timer = loop.every(0.005, [&] {
    if (++count == 3) loop.cancel(timer);
  });
  loop.run_for(0.1);
  EXPECT_EQ(count, 3);
}

TEST(EventLoop, WhatWasForgottenByAnEarlierHandlerIsNotCalled) {
  TestPipe first, second;
  EventLoop loop;
  int calls = 0;
  const auto handler = [&](Ready ready) {
    EXPECT_TRUE(ready.reads);
    EXPECT_FALSE(ready.writes);
    ++calls;
    loop.forget(first.ends[0]);
    loop.forget(second.ends[0]);
    loop.after(0.02, [&] { loop.stop(); });
  };
  loop.watch(first.ends[0], {.reads = true}, handler);
  loop.watch(second.ends[0], {.reads = true}, handler);
  first.put();
  second.put();
  loop.run();
  EXPECT_EQ(calls, 1);
}

TEST(EventLoop, WritingIsWaitedForOnlyWhereItIsAsked) {
  TestPipe pipe;
  EventLoop loop;
  int writes = 0;
  loop.watch(pipe.ends[1], {.writes = true}, [&](Ready ready) {
    writes += ready.writes ? 1 : 0;
    loop.change(pipe.ends[1], {});
  });
  loop.run_for(0.03);
  EXPECT_EQ(writes, 1);
  loop.change(pipe.ends[1], {.writes = true});
  loop.run_for(0.03);
  EXPECT_EQ(writes, 2);
}

TEST(EventLoop, SignalsAreHandledBetweenHandlers) {
  std::vector<std::string> seen;
  {
    EventLoop loop;
    loop.on_signal(SIGUSR1, [&] { seen.push_back("signal"); });
    loop.on_signal(SIGTERM, [&] { loop.stop(); });
    loop.after(0, [&] {
      ::kill(::getpid(), SIGUSR1);
      seen.push_back("handler goes on");
      ::kill(::getpid(), SIGTERM);
    });
    loop.run();
    EXPECT_THAT(seen, ElementsAre("handler goes on", "signal"));
  }
  sigset_t now;
  pthread_sigmask(SIG_SETMASK, nullptr, &now);
  EXPECT_FALSE(sigismember(&now, SIGTERM)) << "the mask of before is back";
}

TEST(EventLoop, WhatAHandlerThrowsComesOut) {
  EventLoop loop;
  loop.after(0, [] { throw std::runtime_error("said"); });
  EXPECT_THROW(loop.run(), std::runtime_error);
}

}  // namespace
}  // namespace longhaul
