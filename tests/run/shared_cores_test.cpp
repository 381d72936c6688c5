// What processes that share machines reach together, of what one of them has measured.
#include "run/shared_cores.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/machine/cores.h"
#include "base/process/process.h"
#include "base/threads/parallel.h"
#include "comm/threads/run_ranks.h"

namespace longhaul::run {
namespace {

TEST(SharedCores, ThreadsOfAllRanksHaveEachCoreOnce) {
  const std::vector<int> two = {0, 1}, four = {0, 1, 2, 3};
  const auto at_once = [](const std::vector<RankCores>& ranks) { return threads_at_once(ranks); };
  EXPECT_EQ(at_once({{.threads = 2, .cores = two}}), 2);
  EXPECT_EQ(at_once({{.threads = 1, .cores = four}, {.threads = 1, .cores = four}}), 2)
      << "two cores stand idle";
  EXPECT_EQ(at_once({{.threads = 1, .cores = two},
                     {.threads = 1, .cores = two},
                     {.threads = 1, .cores = two},
                     {.threads = 1, .cores = two}}),
            2);
  EXPECT_EQ(at_once({{.threads = 2, .cores = {0, 1}}, {.threads = 2, .cores = {2, 3}}}), 4)
      << "each is bound to its own";
  EXPECT_EQ(at_once({{.machine = 1, .threads = 2, .cores = two}, {.machine = 2, .threads = 2, .cores = two}}),
            4)
      << "cores of other machines";
  EXPECT_EQ(
      at_once({{.threads = 4, .quota = 1.5, .cores = four}, {.threads = 4, .quota = 1.5, .cores = four}}),
      1.5);
  EXPECT_EQ(at_once({{.threads = 1000, .cores = two}}), 2);
}

// Ranks of this machine with one thread each: as many as it has cores reach as many times what one does, more
// of them no more.
TEST(SharedCores, AllRanksKnowTheSamePeak) {
  const auto cores = static_cast<double>(usable_cores());
  for (const int64_t size : {1, 2, 5}) {
    comm::run_ranks(size, [&](comm::Communicator& world) {
      const MeasuredPeak peak = measured_peak(&world, at::kCPU);
      EXPECT_GT(peak.profile.gemm_fp32, 0);
      EXPECT_GT(peak.profile.measured_at, 0);
      ASSERT_TRUE(peak.here);
      EXPECT_EQ(peak.here->processes, std::vector<int64_t>{process_id()})
          << "ranks are threads of one process";
      EXPECT_EQ(peak.here->cores, allowed_cores());
      if (threads() == 1) {
        EXPECT_EQ(peak.times, std::min(static_cast<double>(size), cores));
      }
    });
  }
}

TEST(SharedCores, TheRunOnTheFirstMachineIsAllItsProcessesThere) {
  const RankCores first{.threads = 1, .cores = {0, 1}, .process = 10, .process_space = 5, .boot = 1};
  RankCores beside = first, elsewhere = first, contained = first;
  beside.process = 11, beside.machine = 3, beside.cores = {1, 2};  // in a container of its own
  elsewhere.process = 10, elsewhere.boot = 2, elsewhere.process_space = 6;
  contained.process = 1, contained.process_space = 7;
  const auto run = run_on_first_machine(std::vector{first, elsewhere, beside});
  ASSERT_TRUE(run);
  EXPECT_EQ(run->processes, (std::vector<int64_t>{10, 11}));
  EXPECT_EQ(run->cores, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(run->wanted, 2);
  EXPECT_FALSE(run_on_first_machine(std::vector{first, contained})) << "number 1 is another process there";
}

TEST(SharedCores, AllowedCoresAreThoseThatMayBeUsed) {
  const std::vector<int> cores = allowed_cores();
  EXPECT_GE(static_cast<int>(cores.size()), usable_cores());
  EXPECT_TRUE(std::ranges::is_sorted(cores));
  EXPECT_GT(core_quota(), 0);
}

}  // namespace
}  // namespace longhaul::run
