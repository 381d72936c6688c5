// What the events of a run with failures say of its time, by hand; and when failures come.
#include "bench/driver/goodput.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "plan/reliability/effective_rate.h"

namespace longhaul::bench {
namespace {

observe::Event step_at(double unix_s, int64_t step, double seconds = 1) {
  return {.common = {.wall_time = unix_s},
          .body = observe::StepReport{.step = step, .milliseconds = 1e3 * seconds}};
}

// Ten steps of a second, a failure in the eleventh; behind it the run goes back to step 8 and is at it 5 s
// later.
TEST(Goodput, OfARunThatWentBack) {
  std::vector<observe::Event> events = {step_at(990, 1, 500)};  // before the run began
  for (int64_t step = 1; step <= 10; ++step)
    events.push_back(step_at(1000.0 + static_cast<double>(step), step));
  for (int64_t step = 9; step <= 14; ++step)
    events.push_back(step_at(1007.5 + static_cast<double>(step), step));  // the ninth from 1015.5 to 1016.5
  const std::vector<InjectedFailure> failures = {{.unix_s = 1010.5}, {.unix_s = 1012, .missed = true}};
  const GoodputRow row = goodput_of("restarted", events, 1000, 1022, failures, 4);
  EXPECT_EQ(row.failures, 1);
  EXPECT_EQ(row.missed, 1);
  EXPECT_EQ(row.steps, 14);
  EXPECT_EQ(row.steps_again, 2);
  EXPECT_DOUBLE_EQ(row.useful_s, 14);
  EXPECT_DOUBLE_EQ(row.again_s, 2);
  EXPECT_DOUBLE_EQ(row.down_s, 5);
  EXPECT_DOUBLE_EQ(row.restart_s, 5);
  EXPECT_DOUBLE_EQ(row.step_s, 1);
  EXPECT_DOUBLE_EQ(row.measured(), 14.0 / 22);
  EXPECT_DOUBLE_EQ(row.formula, 1 - (5 + 4 / 2.0) / 22);
  EXPECT_NEAR(row.simulated,
              plan::wall_time_s(1, 22, 4, 0, 5) > 0 ? 1 / plan::wall_time_s(1, 22, 4, 0, 5) : 0, 0.03);
}

// A report that was on its way when the rank was killed is no step behind the failure; two failures before
// the next step are one time without training.
TEST(Goodput, FailuresThatFallTogether) {
  const std::vector<observe::Event> events = {step_at(1001, 1), step_at(1002.1, 2), step_at(1011, 3)};
  const GoodputRow row = goodput_of("memory", events, 1000, 1012, {{.unix_s = 1002}, {.unix_s = 1006}}, 1);
  EXPECT_DOUBLE_EQ(row.down_s, 8) << "from the first failure to the beginning of the third step";
  EXPECT_DOUBLE_EQ(row.restart_s, 4);
  EXPECT_EQ(row.steps_again, 0);
  // Behind the last one nothing came.
  EXPECT_DOUBLE_EQ(goodput_of("memory", events, 1000, 1020, {{.unix_s = 1012}}, 1).down_s, 8);
  EXPECT_EQ(goodput_of("memory", events, 1000, 1012, {}, 1).formula, 1);
}

TEST(Goodput, FailuresAreDrawnAtTheirMean) {
  const std::vector<double> times = failure_times(3, 120, 1e6);
  EXPECT_NEAR(1e6 / static_cast<double>(times.size()), 120, 4);
  EXPECT_TRUE(std::ranges::is_sorted(times));
  EXPECT_EQ(failure_times(3, 120, 1e6), times) << "the seed says them all";
  EXPECT_NE(failure_times(4, 120, 1e6), times);
  // Without memory: of the gaps e⁻¹ are longer than the mean.
  int64_t longer = 0;
  for (size_t i = 1; i < times.size(); ++i) longer += times[i] - times[i - 1] > 120 ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(longer) / static_cast<double>(times.size()), 0.3679, 0.02);
}

}  // namespace
}  // namespace longhaul::bench
