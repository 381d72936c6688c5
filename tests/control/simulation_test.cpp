// ctest: label=fast timeout=120
#include "control/simulation/simulation.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace longhaul::control {
namespace {

TEST(Simulation, WithoutFaultsARunIsDoneInOneGeneration) {
  SimulationOptions options = quick_schedule(1);
  options.fault_every_s = 0;
  options.deadly_sample = false;
  const SimulationResult result = simulate(options);
  EXPECT_TRUE(result.broken.empty()) << fmt::format("{}", fmt::join(result.broken, "\n"));
  EXPECT_TRUE(result.finished) << result.text;
  EXPECT_EQ(result.generations, 1);
  EXPECT_EQ(result.incidents, 0);
  EXPECT_GT(result.productive_s / result.seconds, 0.9);
}

TEST(Simulation, TheSameSeedIsTheSameStory) {
  const SimulationResult once = simulate(quick_schedule(5)), again = simulate(quick_schedule(5));
  EXPECT_EQ(once.seconds, again.seconds);
  EXPECT_EQ(once.incidents_by_class, again.incidents_by_class);
  EXPECT_EQ(once.journal_entries, again.journal_entries);
}

TEST(Simulation, InvariantsHoldInEverySchedule) {
  int64_t finished = 0, incidents = 0, single = 0, named = 0;
  const int64_t count = 300;
  for (int64_t seed = 0; seed < count; ++seed) {
    const SimulationResult result = simulate(quick_schedule(static_cast<uint64_t>(seed)));
    EXPECT_TRUE(result.broken.empty()) << "seed " << seed << "\n"
                                       << fmt::format("{}", fmt::join(result.broken, "\n")) << "\n"
                                       << result.text;
    finished += result.finished ? 1 : 0;
    incidents += result.incidents;
    single += result.single;
    named += result.named;
  }
  EXPECT_GT(finished, count * 3 / 4);
  EXPECT_GT(incidents, count);
  EXPECT_GE(named, single * 95 / 100) << named << " of " << single;
}

}  // namespace
}  // namespace longhaul::control
