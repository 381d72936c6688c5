// Known values: pass@k by counting subsets, means and errors by hand.
#include "puzzles/grade/pass_rate.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

namespace longhaul::puzzles {
namespace {

// The share of the subsets of k answers that hold an accepted one, each looked at. The first `accepted` are.
double by_subsets(int64_t answers, int64_t accepted, int64_t k) {
  int64_t all = 0, with = 0;
  for (uint32_t subset = 0; subset < (1U << answers); ++subset) {
    if (std::popcount(subset) != k) continue;
    ++all;
    with += (subset & ((1U << accepted) - 1)) != 0 ? 1 : 0;
  }
  return static_cast<double>(with) / static_cast<double>(all);
}

TEST(PassRate, IsTheShareOfSubsets) {
  for (int64_t answers = 1; answers <= 10; ++answers) {
    for (int64_t accepted = 0; accepted <= answers; ++accepted) {
      for (int64_t k = 1; k <= answers; ++k)
        EXPECT_NEAR(pass_at_k(answers, accepted, k), by_subsets(answers, accepted, k), 1e-12)
            << answers << accepted << k;
    }
  }
  EXPECT_NEAR(pass_at_k(200, 1, 100), 0.5, 1e-12);
  EXPECT_NEAR(pass_at_k(10'000, 10, 1), 0.001, 1e-12);
}

TEST(PassRate, ErrorsAreOverProblems) {
  const std::vector<Tried> problems = {{4, 0}, {4, 1}, {4, 4}, {4, 3}};
  const Estimate average_of = average(problems);
  EXPECT_DOUBLE_EQ(average_of.mean, 0.5);
  // Shares 0, 1/4, 1, 3/4: squares around 1/2 sum to 0.625.
  EXPECT_DOUBLE_EQ(average_of.error, std::sqrt(0.625 / 3 / 4));
  // pass@2: 0, 1/2, 1, 1.
  EXPECT_DOUBLE_EQ(pass_at_k(problems, 2).mean, 0.625);
  EXPECT_DOUBLE_EQ(pass_at_k(problems, 2).error, std::sqrt((0.390625 + 0.015625 + 2 * 0.140625) / 3 / 4));
  EXPECT_TRUE(std::isnan(average(std::vector<Tried>{{4, 1}}).error));
  EXPECT_TRUE(std::isnan(average({}).mean));
}

}  // namespace
}  // namespace longhaul::puzzles
