#include "plan/reliability/effective_rate.h"

#include <gtest/gtest.h>

#include <cmath>

namespace longhaul::plan {
namespace {

// arXiv 2410.21680 as docs/sources/reliability.md §3 works it out: 6.5 failures per 1,000 node-days, restart
// and checkpoint 300 s.
TEST(EffectiveRateFormulas, KnownValues) {
  struct Known {
    double gpus, failures, checkpoint_s, interval_minutes, rate;
  };
  for (const Known& known : {Known{1024, 6.5e-3, 300, 131.6, 0.924}, Known{12288, 6.5e-3, 300, 38.0, 0.737},
                             Known{16384, 6.5e-3, 300, 32.9, 0.696}, Known{12288, 1e-3, 300, 0, 0.897},
                             Known{12288, 6.5e-3, 10, 6.9, 0.919}}) {
    const double mean_s = 86400 / (known.gpus / 8 * known.failures),
                 interval_s = std::sqrt(2 * known.checkpoint_s * mean_s);
    if (known.interval_minutes > 0) {
      EXPECT_NEAR(interval_s / 60, known.interval_minutes, 0.06);
    }
    EXPECT_NEAR(expected_effective_rate(mean_s, interval_s, known.checkpoint_s, 300), known.rate, 0.0006);
  }
  // Daly's tau for C 60, M 3 h is 1098.8 s; efficiency 0.8737 with R 300.
  EXPECT_NEAR(1 / wall_time_s(1, 3 * 3600, 1098.8, 60, 300), 0.8737, 5e-5);
}

TEST(EffectiveRateFormulas, ReplicasInMemory) {
  EXPECT_EQ(replicas_survive(16, 2, 1), 1);
  EXPECT_NEAR(replicas_survive(16, 2, 2), 0.933, 5e-4);
  EXPECT_NEAR(replicas_survive(16, 2, 3), 0.800, 5e-4);
  EXPECT_NEAR(replicas_survive(128, 2, 2), 0.992, 5e-4);
  EXPECT_NEAR(replicas_survive(128, 3, 3), 0.99988, 5e-6);
}

// Against Daly's wall time, which is exact for memoryless failures that may strike while it starts again.
TEST(EffectiveRateSimulation, AgreesWithDaly) {
  for (const double mean_s : {3600.0, 7200.0}) {
    const FaultyRun run{.days = 3000,
                        .mean_to_failure_s = mean_s,
                        .interval_s = 900,
                        .checkpoint_s = 30,
                        .kinds = {{.name = "all", .detect_s = 50, .diagnose_s = 100, .restart_s = 150}},
                        .seed = 4};
    const EffectiveRate rate = simulate_rate(run);
    const double expected = 1 / wall_time_s(1, mean_s, 900, 30, 300);
    // Tens of thousands of faults: about 0.3 % by chance; a fault while saving loses what is being saved, as
    // in the formula.
    EXPECT_NEAR(rate.rate, expected, 0.006) << mean_s;
    double lost_s = 0;
    for (const auto& [name, seconds] : rate.lost_s) lost_s += seconds;
    EXPECT_NEAR(rate.rate * run.days * 86400 + lost_s, run.days * 86400, 1000)
        << "every second is one or the other";
  }
}

TEST(EffectiveRateSimulation, WithoutFaultsOnlySavingCosts) {
  const EffectiveRate rate = simulate_rate({.days = 1,
                                            .mean_to_failure_s = 1e15,
                                            .interval_s = 90,
                                            .checkpoint_s = 10,
                                            .kinds = {{.name = "all"}}});
  EXPECT_EQ(rate.faults, 0);
  EXPECT_NEAR(rate.rate, 0.9, 1e-4);
}

// A fault that strikes within 300 s of a checkpoint's end finds the one before: the interval is done again.
// Both runs meet the same faults.
TEST(EffectiveRateSimulation, ACheckpointThatIsNotSafeYetIsLost) {
  FaultyRun run{.days = 3000,
                .mean_to_failure_s = 3600,
                .interval_s = 600,
                .kinds = {{.name = "all", .detect_s = 0, .diagnose_s = 0, .restart_s = 0}}};
  EffectiveRate safe = simulate_rate(run);
  run.durable_s = 300;
  EffectiveRate late = simulate_rate(run);
  ASSERT_EQ(late.faults, safe.faults);
  // Of T, exponential with mean M: T is at least a cycle c, and T mod c below d.
  const double share =
      std::exp(-600 / 3600.0) * (1 - std::exp(-300 / 3600.0)) / (1 - std::exp(-600 / 3600.0));
  const double again_s = late.lost_s["again"] - safe.lost_s["again"];
  EXPECT_NEAR(again_s / (600 * static_cast<double>(late.faults)) / share, 1, 0.02);
  EXPECT_NEAR((safe.rate - late.rate) * run.days * 86400, again_s, 1) << "it is not productive then";
}

// A run that ends while it saves: what it did since the last checkpoint counts, the saving does not.
TEST(EffectiveRateSimulation, TheLastIntervalCounts) {
  const auto rate_of = [](double seconds) {
    return simulate_rate({.days = seconds / 86400,
                          .mean_to_failure_s = 1e15,
                          .interval_s = 90,
                          .checkpoint_s = 10,
                          .kinds = {{.name = "all"}}})
        .rate;
  };
  EXPECT_NEAR(rate_of(45), 1, 1e-9);
  EXPECT_NEAR(rate_of(95), 90.0 / 95, 1e-9);
  EXPECT_NEAR(rate_of(195), 180.0 / 195, 1e-9);
}

// Of two kinds of faults each takes its share.
TEST(EffectiveRateSimulation, KindsHaveTheirShares) {
  EffectiveRate rate = simulate_rate(
      {.days = 3000,
       .mean_to_failure_s = 3600,
       .interval_s = 60,
       .kinds = {{.name = "often", .share = 3, .detect_s = 1, .diagnose_s = 0, .restart_s = 0},
                 {.name = "seldom", .share = 1, .detect_s = 0, .diagnose_s = 1, .restart_s = 0}}});
  ASSERT_GT(rate.faults, 50'000);
  EXPECT_NEAR(rate.lost_s["detect"] / static_cast<double>(rate.faults), 0.75, 0.01);
  EXPECT_NEAR(rate.lost_s["diagnose"] / static_cast<double>(rate.faults), 0.25, 0.01);
}

TEST(EffectiveRateSimulation, AsGoodAsAsked) {
  for (const RateScenario& scenario : rate_scenarios({})) {
    const EffectiveRate rate = simulate_rate(scenario.run);
    if (scenario.name.find("disk") != std::string::npos || scenario.name.find("own") != std::string::npos)
      continue;
    EXPECT_GE(rate.rate, 0.97) << scenario.name;
  }
}

}  // namespace
}  // namespace longhaul::plan
