#include "control/driver/slow_ranks.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace longhaul::control {
namespace {

constexpr int64_t kRanks = 8;

// A synchronous step: all take as long as the slowest, and who computes less waits more.
void tell_step(SlowRanks& watch, int64_t generation, int64_t step, int64_t slow_rank, double slower) {
  const RandomStream random(9, "jitter");
  for (int64_t rank = 0; rank < kRanks; ++rank) {
    const double compute = (rank == slow_rank ? 1 + slower : 1) *
                           (0.1 + 0.0005 * random.normal(static_cast<uint64_t>(step * kRanks + rank)));
    RankBeat beat{.rank = rank, .generation = generation, .step = step, .resumed_step = 0};
    beat.step_seconds = 0.15;
    beat.phase_seconds = {{"forward", compute / 3},
                          {"backward", compute / 2},
                          {"optimizer", compute / 6},
                          {"communication", 0.15 - compute}};
    watch.see("node-" + std::to_string(rank / 4), beat);
    // beats come each second, whether a step has ended or not
    watch.see("node-" + std::to_string(rank / 4), beat);
  }
}

TEST(SlowRanksOfARun, OneThatComputesATenthLongerIsToldOfOnce) {
  SlowRanks watch(1);
  for (int64_t step = 1; step <= 80; ++step) tell_step(watch, 1, step, 5, 0.1);
  const std::vector<SlowRank> found = watch.look();
  ASSERT_EQ(found.size(), 1);
  EXPECT_EQ(found[0].rank, 5);
  EXPECT_EQ(found[0].node, "node-1");
  EXPECT_NE(found[0].text.find("10 % longer"), std::string::npos) << found[0].text;
  for (int64_t step = 81; step <= 90; ++step) tell_step(watch, 1, step, 5, 0.1);
  const std::vector<SlowRank> again = watch.look();
  ASSERT_EQ(again.size(), 1);
  EXPECT_TRUE(found[0].first);
  EXPECT_FALSE(again[0].first);
  EXPECT_NEAR(found[0].lost_s, 80 * 0.01, 80 * 0.002) << "each step waits a tenth of 0.1 s";
  EXPECT_NEAR(again[0].lost_s, 90 * 0.01, 90 * 0.002);
}

TEST(SlowRanksOfARun, NobodyWhereAllAreAlike) {
  SlowRanks watch(2);
  for (int64_t step = 1; step <= 80; ++step) tell_step(watch, 1, step, -1, 0);
  EXPECT_TRUE(watch.look().empty());
}

// The last stage has the head, and computes longer: its ranks are each other's peers.
TEST(SlowRanksOfARun, StagesAreNotComparedWithOneAnother) {
  const auto found = [](int64_t stages) {
    SlowRanks watch(stages);
    const RandomStream random(9, "jitter");
    for (int64_t step = 1; step <= 80; ++step) {
      for (int64_t rank = 0; rank < 16; ++rank) {
        const double jitter = 0.0005 * random.normal(static_cast<uint64_t>(step * 16 + rank));
        const double compute = (rank >= 12 ? 1.5 : 1) * (0.1 + jitter);
        RankBeat beat{.rank = rank, .generation = 1, .step = step, .resumed_step = 0};
        beat.step_seconds = 0.15;
        beat.phase_seconds = {
            {"forward", compute / 2}, {"backward", compute / 2}, {"communication", 0.15 - compute}};
        watch.see("node-" + std::to_string(rank / 4), beat);
      }
    }
    return watch.look().size();
  };
  EXPECT_EQ(found(4), 0U);
  EXPECT_EQ(found(1), 4U) << "of one stage they are behind all others";
}

TEST(SlowRanksOfARun, AnotherGenerationBeginsAnew) {
  SlowRanks watch(1);
  for (int64_t step = 1; step <= 80; ++step) tell_step(watch, 1, step, 5, 0.2);
  tell_step(watch, 2, 60, -1, 0);
  EXPECT_TRUE(watch.look().empty()) << "one step of this generation says nothing";
  for (int64_t step = 61; step <= 140; ++step) {
    tell_step(watch, 2, step, 2, 0.2);
    tell_step(watch, 1, step, 5, 0.2);  // late words of the generation before
  }
  const std::vector<SlowRank> found = watch.look();
  ASSERT_EQ(found.size(), 1);
  EXPECT_EQ(found[0].rank, 2);
  // The same rank again, in another generation: news, and what it cost before is not counted twice.
  for (int64_t step = 60; step <= 140; ++step) tell_step(watch, 3, step, 2, 0.2);
  const std::vector<SlowRank> again = watch.look();
  ASSERT_EQ(again.size(), 1);
  EXPECT_TRUE(again[0].first);
  EXPECT_NEAR(again[0].lost_s, 81 * 0.02, 81 * 0.004);
}

}  // namespace
}  // namespace longhaul::control
