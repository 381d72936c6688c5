#include "base/threads/worker.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <future>
#include <stdexcept>
#include <vector>

#include "base/error.h"
#include "base/threads/parallel.h"

namespace longhaul {
namespace {

TEST(Worker, RunsInOrder) {
  std::vector<int> order;
  Worker worker("test");
  for (int i = 0; i < 100; ++i) worker.post([&, i] { order.push_back(i); });
  worker.wait();
  EXPECT_TRUE(worker.idle());
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[i], i);
}

TEST(Worker, IsNotIdleWhileATaskRuns) {
  Worker worker("test");
  std::promise<void> gate;
  worker.post([future = gate.get_future().share()] { future.wait(); });
  EXPECT_FALSE(worker.idle());
  gate.set_value();
  worker.wait();
  EXPECT_TRUE(worker.idle());
}

TEST(Worker, HandsTheFirstExceptionToWaitOnce) {
  Worker worker("test");
  std::promise<void> gate;  // so that both are posted before the first one fails
  worker.post([future = gate.get_future().share()] {
    future.wait();
    throw std::runtime_error("first");
  });
  worker.post([] { throw std::runtime_error("second"); });
  gate.set_value();
  try {
    worker.wait();
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "first");
  }
  worker.wait();  // fetched: nothing is left
}

TEST(Worker, HandsAnExceptionToTheNextPost) {
  Worker worker("test");
  worker.post([] { throw Error({.code = ExitCode::kDisk, .what = "disk full"}); });
  while (!worker.idle()) {
  }
  bool ran = false;
  try {
    worker.post([&] { ran = true; });
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kDisk);
  }
  worker.wait();
  EXPECT_FALSE(ran);  // it was not posted
  worker.post([&] { ran = true; });
  worker.wait();
  EXPECT_TRUE(ran);
}

TEST(Worker, DestructorFinishesTheQueueAndLogsWhatNobodyFetched) {
  std::atomic<int> done = 0;
  testing::internal::CaptureStderr();
  {
    Worker worker("writer");
    worker.post([] { throw std::runtime_error("lost write"); });
    while (!worker.idle()) {
    }
    try {
      worker.wait();
    } catch (const std::runtime_error&) {
    }
    for (int i = 0; i < 10; ++i) worker.post([&] { ++done; });
    std::promise<void> gate;
    worker.post([future = gate.get_future().share()] {
      future.wait();
      throw std::runtime_error("lost again");
    });
    gate.set_value();
  }
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(done, 10);
  EXPECT_NE(log.find("lost again"), std::string::npos) << log;
  EXPECT_NE(log.find("writer"), std::string::npos) << log;
}

TEST(Worker, IsNamedBlocksSignalsAndComputesSerially) {
  Worker worker("prefetch");
  worker.post([] {
    char name[16] = {};
    pthread_getname_np(pthread_self(), name, sizeof name);
    EXPECT_STREQ(name, "prefetch");
    sigset_t mask;
    pthread_sigmask(SIG_BLOCK, nullptr, &mask);
    EXPECT_EQ(sigismember(&mask, SIGTERM), 1);
    EXPECT_EQ(sigismember(&mask, SIGINT), 1);
    EXPECT_EQ(threads(), 1);
  });
  worker.wait();
  sigset_t mask;
  pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  EXPECT_EQ(sigismember(&mask, SIGTERM), 0);
}

TEST(Worker, RefusesALongNameAndWaitingForItself) {
  EXPECT_THROW(Worker("a name of sixteen"), Error);
  Worker worker("test");
  worker.post([&] { worker.wait(); });
  EXPECT_THROW(worker.wait(), Error);
}

}  // namespace
}  // namespace longhaul
