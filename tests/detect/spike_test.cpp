// Rules of docs/sources/reliability.md §5.10, each with numbers worked out by hand.
#include "detect/spike.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "detect/replica_vote.h"

namespace longhaul::detect {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

SpikeWatch after(size_t steps, double loss, double norm) {
  SpikeWatch watch;
  for (size_t i = 0; i < steps; ++i) watch.add(loss + (i % 2 == 0 ? 0.01 : -0.01), norm);
  return watch;
}

TEST(Spike, NothingIsSaidBeforeThereIsSomethingToCompareWith) {
  EXPECT_FALSE(after(31, 2, 1).judge(1000, 1000));
  EXPECT_TRUE(after(32, 2, 1).judge(1000, 1));
  EXPECT_FALSE(SpikeWatch().judge(-5, 0));
}

TEST(Spike, WhatIsNotFiniteIsOneAlways) {
  const auto spike = SpikeWatch().judge(std::nan(""), 1);
  ASSERT_TRUE(spike);
  EXPECT_FALSE(spike->finite);
  EXPECT_TRUE(SpikeWatch().judge(1, INFINITY));
}

TEST(Spike, LossesAreJudgedByTheirDeviationsAndAtLeastATwentieth) {
  // ±0.01 around 2: deviation 1.4826 · 0.02 or 0, six of them at most 0.18; a twentieth is 0.1.
  EXPECT_FALSE(after(128, 2, 1).judge(2.09, 1));
  EXPECT_TRUE(after(128, 2, 1).judge(2.2, 1));
  EXPECT_THAT(after(128, 2, 1).judge(2.2, 1)->text, HasSubstr("the loss is 2.2"));
  SpikeWatch noisy;
  std::mt19937_64 dice(1);
  std::normal_distribution<double> normal(2, 0.2);
  for (int i = 0; i < 128; ++i) noisy.add(normal(dice), 1);
  EXPECT_FALSE(noisy.judge(2.8, 1));  // four deviations
  EXPECT_TRUE(noisy.judge(3.6, 1));   // eight
}

TEST(Spike, FiveTimesTheMedianAndTenTimesTheFirstAreTheLeastLimits) {
  SpikeWatch wild;  // whose deviations allow anything
  for (int i = 0; i < 128; ++i) wild.add(i % 3 == 0 ? 1 : i % 3 == 1 ? 2 : 20, 1);
  EXPECT_FALSE(wild.judge(9.9, 1));
  EXPECT_TRUE(wild.judge(10.1, 1));  // the median is 2
  EXPECT_EQ(wild.state().first_most, 20);
}

TEST(Spike, NormsMayGrowFivefold) {
  EXPECT_FALSE(after(99, 2, 0.5).judge(2, 2.6));  // the first hundred steps may do as they like
  EXPECT_FALSE(after(128, 2, 0.5).judge(2, 2.5));
  EXPECT_TRUE(after(128, 2, 0.5).judge(2, 2.6));
  EXPECT_THAT(after(128, 2, 0.5).judge(2, 2.6)->text, HasSubstr("gradient norm"));
  SpikeWatch watch;
  for (int i = 0; i < 300; ++i) watch.add(2, i == 40 ? 30 : 1);  // as the first run has it
  EXPECT_FALSE(watch.judge(2, 29));
  EXPECT_TRUE(watch.judge(2, 31));
}

// A task that is solved: losses of a hundredth that scatter by multiples.
TEST(Spike, LossesNearNothingMayScatter) {
  SpikeWatch watch;
  for (int i = 0; i < 300; ++i) watch.add(i < 50 ? 5 : 0.01, 1);
  EXPECT_FALSE(watch.judge(0.2, 1));
  EXPECT_TRUE(watch.judge(0.3, 1));
}

TEST(Spike, ALossThatFallsIsNone) {
  SpikeWatch watch;
  for (int i = 0; i < 2000; ++i) {
    const double loss = 2 + 9 * std::exp(-i / 100.0), norm = 0.3 + 3 * std::exp(-i / 50.0);
    EXPECT_FALSE(watch.judge(loss, norm)) << i;
    watch.add(loss, norm);
  }
  EXPECT_EQ(watch.state().losses.size(), SpikeWatch::kWindow);
  EXPECT_EQ(watch.state().steps, 2000);
  EXPECT_EQ(watch.state().first_most, 11);
}

TEST(Vote, AMajorityNamesWhoDiffers) {
  EXPECT_TRUE(vote(std::vector<uint64_t>{7, 7, 7}).agreed);
  EXPECT_TRUE(vote(std::vector<uint64_t>{7}).agreed);
  const Vote one = vote(std::vector<uint64_t>{7, 8, 7, 7});
  EXPECT_TRUE(one.majority);
  EXPECT_THAT(one.suspects, ElementsAre(1));
  const Vote two = vote(std::vector<uint64_t>{7, 8});
  EXPECT_FALSE(two.majority);
  EXPECT_THAT(two.suspects, ElementsAre(0, 1));
  EXPECT_THAT(vote(std::vector<uint64_t>{1, 9, 1, 8, 1}).suspects, ElementsAre(1, 3));
}

TEST(Vote, InARingWhoStandsInTwoPairsIsIt) {
  // Works 10, 11, 12, 13; rank 2 computes everything one too high.
  const Vote ring =
      vote_in_ring(std::vector<uint64_t>{10, 11, 13, 13}, std::vector<uint64_t>{11, 12, 14, 10});
  EXPECT_FALSE(ring.agreed);
  EXPECT_TRUE(ring.majority);
  EXPECT_THAT(ring.suspects, ElementsAre(2));
  EXPECT_TRUE(vote_in_ring(std::vector<uint64_t>{10, 11, 12}, std::vector<uint64_t>{11, 12, 10}).agreed);
  EXPECT_THAT(vote_in_ring(std::vector<uint64_t>{10, 12}, std::vector<uint64_t>{11, 10}).suspects,
              ElementsAre(0, 1));
  EXPECT_THAT(vote_in_ring(std::vector<uint64_t>{5}, std::vector<uint64_t>{6}).suspects, ElementsAre(0));
  // A mistake once, in the work of another: two are suspects.
  EXPECT_THAT(vote_in_ring(std::vector<uint64_t>{10, 11, 12}, std::vector<uint64_t>{99, 12, 10}).suspects,
              ElementsAre(0, 1));
}

}  // namespace
}  // namespace longhaul::detect
