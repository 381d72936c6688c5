#include "detect/trials/simulate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/files/temporary_folder.h"
#include "detect/samples/metric_files.h"
#include "detect/trials/case_files.h"

namespace longhaul::detect {
namespace {

TEST(Simulate, IsAFunctionOfTheSeed) {
  const Case a = simulate({.machines = 6, .seed = 3, .fault = "any", .seconds = 900}),
             b = simulate({.machines = 6, .seed = 3, .fault = "any", .seconds = 900});
  ASSERT_EQ(a.pull.values.size(), b.pull.values.size());
  for (size_t i = 0; i < a.pull.values.size(); ++i)
    ASSERT_TRUE(a.pull.values[i] == b.pull.values[i] ||
                (std::isnan(a.pull.values[i]) && std::isnan(b.pull.values[i])));
  EXPECT_NE(a.faults[0].onset_s,
            simulate({.machines = 6, .seed = 4, .fault = "any", .seconds = 900}).faults[0].onset_s);
}

TEST(Simulate, FaultsComeBySharesAndMoveWhatTheySay) {
  std::map<std::string, int> seen;
  int findable = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const Case made = simulate({.machines = 4, .seed = seed, .fault = "any", .seconds = 900, .metrics = {0}});
    ++seen[made.faults[0].type];
    findable += detectable(made.faults[0], metric_choice("used"), kContinuitySpan);
    EXPECT_GE(made.faults[0].end_s - made.faults[0].onset_s, 60);
    EXPECT_EQ(made.faults[0].end_s, 900);
  }
  EXPECT_NEAR(seen["ecc_error"], 400 * 38.9 / 89.8, 40);
  EXPECT_EQ(seen.size(), 10u);
  EXPECT_NEAR(findable / 400.0, 0.83, 0.06);  // 12 % are too short, 5 % show nowhere
  const Case pcie = simulate({.machines = 8, .seed = 2, .fault = "pcie_downgrading", .seconds = 900});
  const Fault& fault = pcie.faults[0];
  ASSERT_EQ(fault.metrics[0], 0u);  // always in PFC
  double before = 0, after = 0;
  for (int64_t s = 0; s < 900; ++s) {
    const float value = pcie.pull.row(0, s)[fault.machine];
    if (!std::isnan(value))
      (s < fault.onset_s ? before : after) =
          std::max(s < fault.onset_s ? before : after, static_cast<double>(value));
  }
  EXPECT_GT(after, fault.severity);
}

TEST(CaseFiles, TruthComesBack) {
  TemporaryFolder folder;
  const Case made =
      simulate({.machines = 8, .seed = 12, .fault = "gpu_execution_error", .seconds = 120, .episodes = 2});
  write_case(folder.path(), made);
  const auto truth = read_truth(folder.path());
  ASSERT_TRUE(truth.has_value());
  ASSERT_EQ(truth->faults.size(), 2u);
  EXPECT_EQ(truth->faults[1].machine, made.faults[1].machine);
  EXPECT_EQ(truth->faults[1].group, made.faults[1].group);
  EXPECT_EQ(truth->faults[1].onset_s, made.faults[1].onset_s);
  const Pull read = read_folder(folder.path(), metric_choice("used"), {});
  EXPECT_EQ(read.machines, made.pull.machines);
  EXPECT_EQ(read.seconds, 240);
  Pull filled = made.pull;
  fill_gaps(filled);
  for (size_t i = 0; i < filled.values.size(); ++i)
    // four digits
    ASSERT_NEAR(static_cast<double>(filled.values[i]), static_cast<double>(read.values[i]), 6e-4) << i;
}

}  // namespace
}  // namespace longhaul::detect
