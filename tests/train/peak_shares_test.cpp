// Shares of the measured peak: a step that beats it raises it, and none is above 1.
#include "train/peak_shares.h"

#include <gtest/gtest.h>

namespace longhaul::train {
namespace {

observe::StepReport told(PeakShares& shares, double tokens_per_second) {
  observe::StepReport report{.tokens_per_second = tokens_per_second};
  shares.tell(report);
  return report;
}

// 20 FLOPs a token and 5 of them again, 30 with all of attention; the peak was measured as 1,000 FLOP/s.
TEST(PeakShares, AFasterStepRaisesThePeakForTheStepsAfterIt) {
  PeakShares shares({.causal = 20, .full_attention = 30, .again = 5}, 1000);
  observe::StepReport step = told(shares, 10);
  EXPECT_EQ(step.model_flops_per_second, 200);
  EXPECT_EQ(step.mfu, 0.2);
  EXPECT_EQ(step.hfu, 0.25);
  EXPECT_EQ(step.mfu_full_attention, 0.3);
  EXPECT_EQ(step.peak_flops_per_second, std::nullopt);

  EXPECT_EQ(told(shares, 40).hfu, 1) << "as fast as the peak, and not faster";
  EXPECT_EQ(told(shares, 40).peak_flops_per_second, std::nullopt);

  step = told(shares, 80);
  EXPECT_EQ(step.peak_flops_per_second, 2000);
  EXPECT_EQ(step.hfu, 1);
  EXPECT_EQ(step.mfu, 0.8);
  EXPECT_EQ(step.mfu_full_attention, std::nullopt) << "2,400 of 2,000 is no share";

  step = told(shares, 40);
  EXPECT_EQ(step.peak_flops_per_second, std::nullopt);
  EXPECT_EQ(step.hfu, 0.5);
  EXPECT_EQ(step.mfu_full_attention, 0.6);
}

TEST(PeakShares, WithoutAPeakThereAreNoShares) {
  PeakShares unknown({.causal = 20, .full_attention = 30}, 0), nothing({}, 1000);
  const observe::StepReport step = told(unknown, 10);
  EXPECT_EQ(step.model_flops_per_second, 200);
  EXPECT_EQ(step.mfu, std::nullopt);
  EXPECT_EQ(step.peak_flops_per_second, std::nullopt);
  EXPECT_EQ(told(nothing, 10).model_flops_per_second, std::nullopt);
}

}  // namespace
}  // namespace longhaul::train
