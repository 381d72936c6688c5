#include "base/threads/parallel.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/random.h"

namespace longhaul {
namespace {

class Parallel : public ::testing::Test {
 protected:
  void TearDown() override { set_threads(0); }
};

TEST_F(Parallel, CoversEveryElementOnce) {
  for (int team : {1, 2, 3, 8}) {
    set_threads(team);
    ASSERT_EQ(threads(), team);
    for (int64_t count : {0, 1, 2, 7, 100, 1001})
      for (int64_t grain : {1, 3, 64, 5000}) {
        std::vector<std::atomic<int>> visits(count);
        std::atomic<int> pieces = 0;
        parallel_for(10, 10 + count, grain, [&](int64_t begin, int64_t end) {
          ++pieces;
          EXPECT_LT(begin, end);
          EXPECT_TRUE(end - begin >= grain || end - begin == count);
          for (int64_t i = begin; i < end; ++i) ++visits[i - 10];
        });
        for (const auto& visit : visits) ASSERT_EQ(visit, 1);
        EXPECT_LE(pieces, team);
        EXPECT_EQ(pieces, count == 0 ? 0 : std::max<int64_t>(1, std::min<int64_t>(team, count / grain)));
      }
  }
}

TEST_F(Parallel, UsesSeveralThreads) {
  set_threads(4);
  std::set<std::thread::id> seen;
  std::mutex mutex;
  parallel_for(0, 4, 1, [&](int64_t, int64_t) {
    const std::lock_guard lock(mutex);
    seen.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(seen.size(), 4u);
}

TEST_F(Parallel, PiecesDependOnlyOnTheArguments) {
  set_threads(3);
  const auto pieces = [] {
    std::set<std::pair<int64_t, int64_t>> found;
    std::mutex mutex;
    parallel_for(0, 101, 10, [&](int64_t begin, int64_t end) {
      const std::lock_guard lock(mutex);
      found.emplace(begin, end);
    });
    return found;
  };
  const std::set<std::pair<int64_t, int64_t>> expected = {{0, 34}, {34, 68}, {68, 101}};
  for (int i = 0; i < 20; ++i) ASSERT_EQ(pieces(), expected);
}

TEST_F(Parallel, ItemsAreTakenInOrderOnceEach) {
  for (int team : {1, 2, 3, 8}) {
    set_threads(team);
    for (int64_t items : {0, 1, 2, 7, 1000}) {
      for (int64_t workers : {1, 2, 100}) {
        std::vector<std::atomic<int>> visits(items);
        std::atomic<int64_t> started = 0;
        parallel_items(items, workers, [&](const auto& each) {
          ++started;
          int64_t last = -1;
          each([&](int64_t item) {
            EXPECT_GT(item, last);
            last = item;
            ++visits[item];
          });
        });
        for (const auto& visit : visits) ASSERT_EQ(visit, 1);
        EXPECT_LE(started, std::min<int64_t>({items, workers, team}));
      }
    }
  }
}

TEST_F(Parallel, RethrowsAnExceptionAndFinishesTheRest) {
  set_threads(4);
  std::atomic<int> done = 0;
  try {
    parallel_for(0, 4, 1, [&](int64_t begin, int64_t) {
      if (begin == 2) throw std::runtime_error("piece two");
      ++done;
    });
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "piece two");
  }
  EXPECT_EQ(done, 3);
  parallel_for(0, 4, 1, [&](int64_t, int64_t) { ++done; });  // the pool is still whole
  EXPECT_EQ(done, 7);
}

TEST_F(Parallel, NestedCallsAreSerial) {
  set_threads(4);
  std::atomic<int64_t> inner_sum = 0;
  parallel_for(0, 4, 1, [&](int64_t, int64_t) {
    EXPECT_EQ(threads(), 1);
    const auto outer = std::this_thread::get_id();
    int calls = 0;
    parallel_for(0, 1000, 1, [&](int64_t begin, int64_t end) {
      ++calls;
      EXPECT_EQ(std::this_thread::get_id(), outer);
      inner_sum += end - begin;
    });
    EXPECT_EQ(calls, 1);
  });
  EXPECT_EQ(inner_sum, 4000);
}

TEST_F(Parallel, RandomNumbersDoNotDependOnTheThreads) {
  const auto filled = [](int team) {
    set_threads(team);
    std::vector<double> values(1000);
    const RandomStream stream(1, "test/parallel");
    parallel_for(0, 1000, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) values[i] = stream.normal(i);
    });
    return values;
  };
  const auto alone = filled(1);
  EXPECT_EQ(filled(2), alone);
  EXPECT_EQ(filled(7), alone);
}

TEST_F(Parallel, CountsUsableCores) {
  EXPECT_GE(usable_cores(), 1);
  set_threads(0);
  EXPECT_EQ(threads(), usable_cores());
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &before)) {
      CPU_SET(cpu, &one);
      break;
    }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(usable_cores(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

TEST_F(Parallel, RefusesAGrainOfZero) {
  EXPECT_THROW(parallel_for(0, 1, 0, [](int64_t, int64_t) {}), Error);
}

}  // namespace
}  // namespace longhaul
