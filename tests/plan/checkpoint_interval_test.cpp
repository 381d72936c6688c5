// The intervals beside the figures of docs/sources/reliability.md §3 (C, M = 3 h), and the limits of Daly's
// formula.
#include "plan/reliability/checkpoint_interval.h"

#include <gtest/gtest.h>

#include <cmath>

namespace longhaul::plan {
namespace {

constexpr double kHour = 3600;

TEST(CheckpointInterval, PublishedFigures) {
  const struct {
    double checkpoint_s, young_s, daly_s;
  } rows[] = {{300, 2545.6, 2349.5}, {60, 1138.4, 1098.8}, {10, 464.8, 458.1}, {1, 147.0, 146.3}};
  for (const auto& row : rows) {
    EXPECT_NEAR(young_interval_s(row.checkpoint_s, 3 * kHour), row.young_s, 0.05) << row.checkpoint_s;
    EXPECT_NEAR(daly_interval_s(row.checkpoint_s, 3 * kHour), row.daly_s, 0.05) << row.checkpoint_s;
  }
}

// Time per unit of work with exponential failures: M / τ · e^{R/M} (e^{(τ+C)/M} − 1). Daly's τ is near its
// lowest, and 0.8737 of the time is useful.
TEST(CheckpointInterval, IsWhereTheExpectedTimeIsLowest) {
  const double mean = 3 * kHour, cost = 60, restart = 300;
  const auto time_of = [&](double tau) {
    return mean / tau * std::exp(restart / mean) * std::expm1((tau + cost) / mean);
  };
  const double tau = daly_interval_s(cost, mean);
  EXPECT_NEAR(1 / time_of(tau), 0.8737, 5e-5);
  EXPECT_GT(time_of(tau * 0.9), time_of(tau));
  EXPECT_GT(time_of(tau * 1.1), time_of(tau));
}

TEST(CheckpointInterval, NeverLongerThanTheMeanWhereACheckpointTakesTwoOfThem) {
  EXPECT_EQ(daly_interval_s(2 * kHour, kHour), kHour);
  EXPECT_EQ(daly_interval_s(5 * kHour, kHour), kHour);
  EXPECT_EQ(daly_interval_s(0, kHour), 0);
}

TEST(CheckpointInterval, FailuresThatWereSeenTakeOverFromWhatWasExpected) {
  EXPECT_EQ(observed_mean_to_failure_s(24 * kHour, 0, 0), 24 * kHour);
  EXPECT_EQ(observed_mean_to_failure_s(24 * kHour, 24 * kHour, 1), 24 * kHour);
  EXPECT_NEAR(observed_mean_to_failure_s(24 * kHour, 1000 * kHour, 1000), kHour, 0.03 * kHour);
}

}  // namespace
}  // namespace longhaul::plan
