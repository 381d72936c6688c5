#include "optim/schedule.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>

#include "base/error.h"

namespace longhaul::optim {
namespace {

using recipe::OptimOptions;
using recipe::Schedule;
using recipe::TrainOptions;

TEST(Schedule, WarmupRisesLinearly) {
  const TrainSchedule schedule({.lr = 2e-4, .warmup_steps = 500, .schedule = Schedule::kConstant},
                               {.steps = 1000});
  EXPECT_DOUBLE_EQ(schedule.learning_rate(1), 4e-7);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(250), 1e-4);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(499), 2e-4 * 499 / 500);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(500), 2e-4);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(1000000), 2e-4);
  const TrainSchedule none({.lr = 2e-4, .warmup_steps = 0, .schedule = Schedule::kConstant}, {.steps = 1000});
  EXPECT_DOUBLE_EQ(none.learning_rate(1), 2e-4);
}

// Of 8 steps from a tenth of the peak on: a quarter and half of the way, in each form (Megatron's initial
// rate, Hugging Face's forms of warm-up).
TEST(Schedule, WarmupRisesAsAsked) {
  using recipe::Rise;
  const std::map<Rise, std::array<double, 2>> known = {
      {Rise::kLinear, {0.1 + 0.9 * 0.25, 0.1 + 0.9 * 0.5}},
      {Rise::kCosine, {0.1 + 0.9 * 0.14644660940672624, 0.1 + 0.9 * 0.5}},
      {Rise::kOneMinusSqrt, {0.1 + 0.9 * 0.1339745962155614, 0.1 + 0.9 * 0.2928932188134524}}};
  for (const auto& [rise, values] : known) {
    const TrainSchedule schedule({.lr = 2.0,
                                  .warmup_steps = 8,
                                  .warmup_from = 0.1,
                                  .warmup_rise = rise,
                                  .schedule = Schedule::kConstant},
                                 {.steps = 100});
    EXPECT_NEAR(schedule.learning_rate(2), 2 * values[0], 1e-15) << static_cast<int>(rise);
    EXPECT_NEAR(schedule.learning_rate(4), 2 * values[1], 1e-15) << static_cast<int>(rise);
    EXPECT_DOUBLE_EQ(schedule.learning_rate(8), 2.0);
    EXPECT_DOUBLE_EQ(schedule.learning_rate(9), 2.0);
  }
}

TEST(Schedule, WeightDecayMayChange) {
  OptimOptions options{.lr = 1.0, .weight_decay = 0.4, .weight_decay_from = 0.1};
  const auto factor = [&](int64_t step) {
    return TrainSchedule(options, {.steps = 100}).weight_decay_factor(step);
  };
  EXPECT_DOUBLE_EQ(factor(50), 0.55);
  EXPECT_DOUBLE_EQ(factor(100), 1);
  EXPECT_DOUBLE_EQ(factor(101), 1);
  options.weight_decay_rise = recipe::Rise::kCosine;
  EXPECT_NEAR(factor(25), 0.1 + 0.9 * 0.14644660940672624, 1e-15);
  options.weight_decay_from = 3;  // it may fall as well
  EXPECT_NEAR(factor(50), 2, 1e-15);
  options.weight_decay_from = 1;
  for (const int64_t step : {1, 50, 100}) EXPECT_DOUBLE_EQ(factor(step), 1);
}

TEST(Schedule, PolynomialKnownValues) {
  OptimOptions options{.lr = 1.0,
                       .warmup_steps = 10,
                       .schedule = Schedule::kPolynomial,
                       .decay_power = 2,
                       .final_lr_fraction = 0.2};
  const TrainSchedule square(options, {.steps = 110});
  EXPECT_DOUBLE_EQ(square.learning_rate(10), 1.0);
  EXPECT_DOUBLE_EQ(square.learning_rate(60), 0.2 + 0.8 * 0.25);
  EXPECT_DOUBLE_EQ(square.learning_rate(85), 0.2 + 0.8 * 0.0625);
  EXPECT_DOUBLE_EQ(square.learning_rate(110), 0.2);
  EXPECT_DOUBLE_EQ(square.learning_rate(500), 0.2);
  options.decay_power = 1;
  OptimOptions linear = options;
  linear.schedule = Schedule::kLinear;
  for (const int64_t step : {1, 10, 33, 70, 110})
    EXPECT_DOUBLE_EQ(TrainSchedule(options, {.steps = 110}).learning_rate(step),
                     TrainSchedule(linear, {.steps = 110}).learning_rate(step));
}

TEST(Schedule, LinearKnownValues) {
  const TrainSchedule schedule(
      {.lr = 1.0, .warmup_steps = 10, .schedule = Schedule::kLinear, .final_lr_fraction = 0.2},
      {.steps = 110});
  EXPECT_DOUBLE_EQ(schedule.learning_rate(10), 1.0);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(60), 0.6);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(85), 0.4);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(110), 0.2);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(500), 0.2);
}

TEST(Schedule, CosineKnownValues) {
  const TrainSchedule schedule({.lr = 1.0,
                                .warmup_steps = 10,
                                .schedule = Schedule::kCosine,
                                .decay_steps = 60,
                                .final_lr_fraction = 0.1},
                               {.steps = 1000});
  EXPECT_DOUBLE_EQ(schedule.learning_rate(10), 1.0);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(30), 0.1 + 0.9 * 0.75);  // cos(60°) = 1/2
  EXPECT_DOUBLE_EQ(schedule.learning_rate(40), 0.55);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(70), 0.1);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(1000), 0.1);
}

TEST(Schedule, WsdKnownValues) {
  OptimOptions options{.lr = 1.0,
                       .warmup_steps = 10,
                       .schedule = Schedule::kWsd,
                       .decay_steps = 40,
                       .final_lr_fraction = 0.01};
  const TrainSchedule schedule(options, {.steps = 200});
  EXPECT_DOUBLE_EQ(schedule.learning_rate(160), 1.0);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(180), 0.1);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(200), 0.01);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(201), 0.01);
  options.decay_steps = 0;  // a tenth of the run
  EXPECT_DOUBLE_EQ(TrainSchedule(options, {.steps = 200}).learning_rate(180), 1.0);
  EXPECT_DOUBLE_EQ(TrainSchedule(options, {.steps = 200}).learning_rate(190), 0.1);
}

TEST(Schedule, WsdFallsAsAsked) {
  using recipe::WsdFall;
  OptimOptions options{
      .lr = 1.0, .warmup_steps = 10, .schedule = Schedule::kWsd, .decay_steps = 40, .final_lr_fraction = 0.2};
  // A quarter, a half and all of the fall, from step 160 on.
  const std::map<WsdFall, std::array<double, 3>> known = {
      {WsdFall::kLinear, {0.8, 0.6, 0.2}},
      {WsdFall::kCosine, {0.2 + 0.8 * 0.8535533905932737, 0.6, 0.2}},
      {WsdFall::kOneMinusSqrt, {0.6, 0.2 + 0.8 * 0.2928932188134524, 0.2}},
      {WsdFall::kHalving, {0.2 + 0.8 * 0.681792830507429, 0.2 + 0.8 * 0.4142135623730951, 0.2}},
      {WsdFall::kExponential, {0.668740304976422, 0.4472135954999579, 0.2}}};
  for (const auto& [fall, values] : known) {
    options.wsd_fall = fall;
    const TrainSchedule schedule(options, {.steps = 200});
    EXPECT_DOUBLE_EQ(schedule.learning_rate(160), 1.0);
    EXPECT_NEAR(schedule.learning_rate(170), values[0], 1e-14) << static_cast<int>(fall);
    EXPECT_NEAR(schedule.learning_rate(180), values[1], 1e-14) << static_cast<int>(fall);
    EXPECT_NEAR(schedule.learning_rate(200), values[2], 1e-14) << static_cast<int>(fall);
    EXPECT_NEAR(schedule.learning_rate(300), values[2], 1e-14) << static_cast<int>(fall);
  }
  options.wsd_fall = WsdFall::kLinear, options.final_lr_fraction = 0;
  EXPECT_DOUBLE_EQ(TrainSchedule(options, {.steps = 200}).learning_rate(200), 0);
}

TEST(Schedule, InverseSquareRootKnownValues) {
  OptimOptions options{.lr = 2.0,
                       .warmup_steps = 100,
                       .schedule = Schedule::kInverseSqrt,
                       .decay_steps = 50,
                       .final_lr_fraction = 0.1};
  const TrainSchedule schedule(options, {.steps = 1000});
  EXPECT_DOUBLE_EQ(schedule.learning_rate(50), 1.0);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(100), 2.0);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(400), 1.0);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(2500), 0.4);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(1000000), 0.2) << "the final fraction";
  options.warmup_steps = 0;
  EXPECT_DOUBLE_EQ(TrainSchedule(options, {.steps = 1000}).learning_rate(1), 2.0);
  EXPECT_DOUBLE_EQ(TrainSchedule(options, {.steps = 1000}).learning_rate(4), 1.0);
}

// torch.optim.lr_scheduler of PyTorch 2.13, 20 steps with a peak of 0.5: OneCycleLR(max_lr=0.5,
// total_steps=20, …) with the arguments that each comment names; the rates are those of steps 1 to 20.
// tests/peer/schedules.py compares whole runs with the torch at hand.
TEST(Schedule, OneCycleIsTorchs) {
  const auto expect = [](const OptimOptions& options, const std::array<double, 20>& rates) {
    const TrainSchedule schedule(options, {.steps = 20});
    for (size_t i = 0; i < rates.size(); ++i)
      EXPECT_NEAR(schedule.learning_rate(static_cast<int64_t>(i) + 1), rates[i], 1e-15) << "step " << i + 1;
    EXPECT_DOUBLE_EQ(schedule.learning_rate(21), rates[19]) << "a run that was made longer";
  };
  using recipe::CycleForm;
  OptimOptions options{.lr = 0.5, .schedule = Schedule::kOneCycle};  // torch's defaults
  expect(options, {0.02,
                   0.06583592135001265,
                   0.18583592135001265,
                   0.3341640786499874,
                   0.45416407864998737,
                   0.5,
                   0.49373200311754367,
                   0.47524231600673683,
                   0.445458088785525,
                   0.40587282697488153,
                   0.3584715008956504,
                   0.30563101096814466,
                   0.250001,
                   0.19437098903185537,
                   0.14153049910434962,
                   0.09412917302511849,
                   0.05454391121447502,
                   0.024759683993263143,
                   0.006269996882456277,
                   2e-06});
  options.cycle_symmetric = true;  // three_phase=True
  expect(options, {0.02,
                   0.06583592135001265,
                   0.18583592135001265,
                   0.3341640786499874,
                   0.45416407864998737,
                   0.5,
                   0.45416407864998737,
                   0.3341640786499874,
                   0.18583592135001262,
                   0.06583592135001264,
                   0.02,
                   0.019396986515238298,
                   0.01766067838674666,
                   0.015000500000000002,
                   0.01173730812849164,
                   0.008264691871508365,
                   0.005001500000000003,
                   0.00234132161325334,
                   0.0006050134847617028,
                   2e-06});
  // anneal_strategy="linear", pct_start=0.25, div_factor=10, final_div_factor=100
  options = {.lr = 0.5,
             .schedule = Schedule::kOneCycle,
             .cycle_rise = 0.25,
             .cycle_start_divisor = 10,
             .cycle_end_divisor = 100,
             .cycle_form = CycleForm::kLinear};
  expect(options, {0.05,   0.1625, 0.275,  0.3875, 0.5,   0.4667, 0.4334, 0.4001, 0.3668, 0.3335,
                   0.3002, 0.2669, 0.2336, 0.2003, 0.167, 0.1337, 0.1004, 0.0671, 0.0338, 0.0005});
  // three_phase=True, anneal_strategy="linear", pct_start=0.45, div_factor=4, final_div_factor=50
  options = {.lr = 0.5,
             .schedule = Schedule::kOneCycle,
             .cycle_rise = 0.45,
             .cycle_start_divisor = 4,
             .cycle_end_divisor = 50,
             .cycle_form = CycleForm::kLinear,
             .cycle_symmetric = true};
  expect(options, {0.125,    0.171875, 0.21875, 0.265625, 0.3125,  0.359375,
                   0.40625,  0.453125, 0.5,     0.453125, 0.40625, 0.359375,
                   0.3125,   0.265625, 0.21875, 0.171875, 0.125,   0.25 / 3 + 0.0025 / 3,
                   0.13 / 3, 0.0025});
}

// A rise within the first step, and one that takes the whole run; warm-up plays no part.
TEST(Schedule, OneCycleAtItsEnds) {
  OptimOptions options{.lr = 2.0, .warmup_steps = 7, .schedule = Schedule::kOneCycle, .cycle_rise = 0.1};
  EXPECT_DOUBLE_EQ(TrainSchedule(options, {.steps = 10}).learning_rate(1), 2.0);
  EXPECT_DOUBLE_EQ(TrainSchedule(options, {.steps = 10}).learning_rate(10), 2.0 / 25e4);
  options.cycle_rise = 1;
  EXPECT_NEAR(TrainSchedule(options, {.steps = 10}).learning_rate(1), 0.08, 1e-15);
  EXPECT_DOUBLE_EQ(TrainSchedule(options, {.steps = 10}).learning_rate(10), 2.0);
  EXPECT_DOUBLE_EQ(TrainSchedule(options, {.steps = 10}).learning_rate(11), 2.0 / 25e4);
}

// CosineAnnealingWarmRestarts(T_0=3, T_mult=2, eta_min=0.0) and (T_0=4, eta_min=0.05) of the same PyTorch.
TEST(Schedule, CosineRestartsAreTorchs) {
  OptimOptions options{.lr = 0.5,
                       .warmup_steps = 0,
                       .schedule = Schedule::kCosineRestarts,
                       .final_lr_fraction = 0,
                       .restart_steps = 3,
                       .restart_factor = 2};
  const double growing[] = {0.5,
                            0.375,
                            0.125,
                            0.5,
                            0.4665063509461097,
                            0.375,
                            0.25,
                            0.125,
                            0.03349364905389032,
                            0.5,
                            0.49148145657226705,
                            0.4665063509461097,
                            0.42677669529663687,
                            0.375,
                            0.3147047612756302,
                            0.25,
                            0.18529523872436984,
                            0.125,
                            0.07322330470336313,
                            0.03349364905389032,
                            0.00851854342773295,
                            0.5,
                            0.4978612153434526};
  const auto rate = [&](int64_t step) { return TrainSchedule(options, {.steps = 20}).learning_rate(step); };
  for (size_t i = 0; i < std::size(growing); ++i)
    EXPECT_NEAR(rate(static_cast<int64_t>(i) + 1), growing[i], 1e-15) << "step " << i + 1;
  // After warm-up, whose last step is the first of the first cycle.
  options.warmup_steps = 5;
  EXPECT_DOUBLE_EQ(rate(1), 0.1);
  for (size_t i = 0; i < std::size(growing); ++i)
    EXPECT_NEAR(rate(static_cast<int64_t>(i) + 5), growing[i], 1e-15) << "step " << i + 5;
  options.warmup_steps = 0, options.final_lr_fraction = 0.1, options.restart_steps = 4;
  options.restart_factor = 1;
  const double even[] = {0.5, 0.4340990257669732, 0.275, 0.11590097423302682};
  for (const int64_t step : {1, 2, 3, 4, 5, 6, 23, 24, 4'000'001})
    EXPECT_NEAR(rate(step), even[(step - 1) % 4], 1e-15) << "step " << step;
}

// No jump anywhere: neighbouring steps differ by at most the steepest slope of the formulas.
TEST(Schedule, ContinuousAtItsBorders) {
  for (const Schedule kind : {Schedule::kConstant, Schedule::kLinear, Schedule::kCosine, Schedule::kWsd,
                              Schedule::kInverseSqrt, Schedule::kPolynomial, Schedule::kOneCycle}) {
    for (const int64_t decay_steps : {0, 300, 990}) {
      const TrainSchedule schedule({.lr = 1.0,
                                    .warmup_steps = 100,
                                    .schedule = kind,
                                    .decay_steps = decay_steps,
                                    .final_lr_fraction = 0.1},
                                   {.steps = 1000});
      const int64_t length = kind == Schedule::kWsd && decay_steps == 0 ? 100
                             : decay_steps == 0                         ? 900
                                                                        : decay_steps;
      const double steepest = 1.0 / 100 + 2.4 / static_cast<double>(length);
      for (int64_t step = 1; step < 1200; ++step) {
        EXPECT_LT(std::abs(schedule.learning_rate(step + 1) - schedule.learning_rate(step)), steepest)
            << step;
        EXPECT_GT(schedule.learning_rate(step), 0);
        EXPECT_LE(schedule.learning_rate(step), 1);
      }
    }
  }
}

TEST(Schedule, RunsShorterThanTheirWarmup) {
  const TrainSchedule schedule(
      {.lr = 1.0, .warmup_steps = 100, .schedule = Schedule::kCosine, .final_lr_fraction = 0.1},
      {.steps = 50});
  EXPECT_DOUBLE_EQ(schedule.learning_rate(50), 0.5);
  // a run that was made longer by hand: the decay is over
  EXPECT_DOUBLE_EQ(schedule.learning_rate(101), 0.1);
}

// The pre-training of MiniMax-Text-01 (docs/sources/minimax-01.md §5.2): sequences of 8,192; batches of 2^24
// to 2^27 tokens.
TEST(Schedule, MiniMaxText01) {
  OptimOptions options{
      .lr = 2e-4, .warmup_steps = 500, .schedule = Schedule::kWsd, .final_lr_fraction = 3e-5 / 1.3e-4};
  options.stages = {{.from_tokens = 69'000'000'000, .batch = 4096},
                    {.from_tokens = 790'000'000'000, .batch = 8192},
                    {.from_tokens = 4'700'000'000'000, .batch = 16384},
                    {.from_tokens = 7'200'000'000'000, .lr = 1.3e-4}};
  const TrainOptions before{.steps = 1, .batch = 2048, .sequence = 8192};
  const TrainSchedule stages(options, before);
  // By hand: 69e9 / 2^24 = 4112.7, so 4,113 steps of the first batch come before the second stage.
  ASSERT_EQ(stages.stages().size(), 5U);
  EXPECT_EQ(stages.stages()[1].first_step, 4114);
  EXPECT_EQ(stages.stages()[1].first_sample, 4113 * 2048);
  for (size_t i = 1; i < 5; ++i) {
    const int64_t first = stages.stages()[i].first_step, border = options.stages[i - 1].from_tokens;
    EXPECT_GE(stages.first_sample(first) * before.sequence, border);
    EXPECT_LT(stages.first_sample(first - 1) * before.sequence, border);
    EXPECT_EQ(stages.batch(first - 1), 2048LL << (i - 1));
  }
  EXPECT_EQ(stages.batch(stages.stages()[4].first_step), 16384);

  // The run ends where 11.4e12 tokens are reached; the last 1e12 of them are the fall.
  const int64_t decay_steps = std::llround(1e12 / (16384.0 * 8192.0));
  const StageState last = stages.stages().back();
  const int64_t steps =
      last.first_step - 1 +
      std::llround((11.4e12 - static_cast<double>(last.first_sample * before.sequence)) / (16384.0 * 8192.0));
  options.decay_steps = decay_steps;
  TrainOptions train = before;
  train.steps = steps;
  const TrainSchedule schedule(options, train);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(1), 4e-7);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(500), 2e-4);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(last.first_step - 1), 2e-4);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(last.first_step), 1.3e-4);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(steps - decay_steps), 1.3e-4);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(steps), 3e-5);
  const int64_t into = decay_steps / 4;
  const double u = static_cast<double>(into) / static_cast<double>(decay_steps);
  EXPECT_NEAR(schedule.learning_rate(steps - decay_steps + into), 1.3e-4 * std::pow(3e-5 / 1.3e-4, u), 1e-18);
  EXPECT_NEAR(static_cast<double>(schedule.first_sample(steps + 1) * train.sequence), 11.4e12,
              16384.0 * 8192.0);
}

TEST(Schedule, FirstSampleIsTheSumOfBatches) {
  OptimOptions options{.lr = 1.0, .warmup_steps = 0, .schedule = Schedule::kConstant};
  options.stages = {
      {.from_step = 4, .batch = 16}, {.from_step = 9, .lr = 0.5}, {.from_step = 12, .batch = 5}};
  const TrainSchedule schedule(options, {.steps = 20, .batch = 8, .sequence = 10});
  int64_t samples = 0;
  for (int64_t step = 1; step <= 20; ++step) {
    EXPECT_EQ(schedule.first_sample(step), samples) << step;
    EXPECT_EQ(schedule.batch(step), step < 4 ? 8 : step < 12 ? 16 : 5) << step;
    EXPECT_DOUBLE_EQ(schedule.learning_rate(step), step < 9 ? 1.0 : 0.5) << step;
    samples += schedule.batch(step);
  }
  EXPECT_EQ(schedule.stage(3), (StageState{1, 0, 8, 1.0, 10, 0}));
  EXPECT_EQ(schedule.stage(11), (StageState{9, 3 * 8 + 5 * 16, 16, 0.5, 10, 10 * (3 * 8 + 5 * 16)}));
}

TEST(Schedule, StagesByTokensBeginWhenTheyAreReached) {
  OptimOptions options{.lr = 1.0, .warmup_steps = 0, .schedule = Schedule::kConstant};
  // 80 tokens a step: 160 are reached exactly before step 3; 161 only before step 4. Both borders within one
  // step: the later holds.
  options.stages = {{.from_tokens = 160, .batch = 4}};
  EXPECT_EQ(TrainSchedule(options, {.steps = 20, .batch = 8, .sequence = 10}).stages()[1].first_step, 3);
  options.stages = {{.from_tokens = 161, .batch = 4}};
  EXPECT_EQ(TrainSchedule(options, {.steps = 20, .batch = 8, .sequence = 10}).stages()[1].first_step, 4);
  options.stages = {{.from_tokens = 161, .batch = 4}, {.from_tokens = 170, .lr = 0.5}};
  const TrainSchedule merged(options, {.steps = 20, .batch = 8, .sequence = 10});
  ASSERT_EQ(merged.stages().size(), 2U);
  EXPECT_EQ(merged.stage(4), (StageState{4, 24, 4, 0.5, 10, 240}));
}

// By hand: 8 sequences of 10 tokens a step (80), from 200 tokens on 4 of 30 (120), from 500 on 4 of 90 (360).
// 200 are reached with three steps (240), and 500 with three more (600), so the third stage begins at step 7.
TEST(Schedule, SequencesThatGetLonger) {
  OptimOptions options{.lr = 1.0, .warmup_steps = 0, .schedule = Schedule::kConstant};
  options.stages = {{.from_tokens = 200, .batch = 4, .sequence = 30},
                    {.from_tokens = 500, .sequence = 90},
                    {.from_tokens = 700, .lr = 0.5}};
  const TrainOptions train{.steps = 20, .batch = 8, .sequence = 10};
  const TrainSchedule schedule(options, train);
  const std::vector<int64_t> lengths = {10, 10, 10, 30, 30, 30, 90, 90},
                             samples = {0, 8, 16, 24, 28, 32, 36, 40},
                             tokens = {0, 80, 160, 240, 360, 480, 600, 960};
  for (size_t i = 0; i < lengths.size(); ++i) {
    const auto step = static_cast<int64_t>(i) + 1;
    EXPECT_EQ(schedule.sequence(step), lengths[i]) << step;
    EXPECT_EQ(schedule.first_sample(step), samples[i]) << step;
    EXPECT_EQ(schedule.first_token(step), tokens[i]) << step;
  }
  // 700 tokens are reached with step 7 (960).
  EXPECT_EQ(schedule.stage(8), (StageState{8, 40, 4, 0.5, 90, 960}));
  EXPECT_TRUE(schedule.changes_sequence());
  EXPECT_EQ(longest_sequence(options, train), 90);
  options.stages = {{.from_step = 3, .batch = 4, .sequence = 10}};
  EXPECT_FALSE(TrainSchedule(options, train).changes_sequence());
}

TEST(Schedule, RefusesWhatCannotBe) {
  const auto code_of = [](const OptimOptions& options) {
    try {
      const TrainSchedule schedule(options, {});
    } catch (const Error& error) {
      return error.code();
    }
    return ExitCode::kDone;
  };
  EXPECT_EQ(code_of({.schedule = Schedule::kWsd, .final_lr_fraction = 0}), ExitCode::kUsage);
  EXPECT_EQ(code_of({.schedule = Schedule::kCosine, .final_lr_fraction = 0}), ExitCode::kDone);
  EXPECT_EQ(code_of({.stages = {{.from_step = 9, .lr = 1}, {.from_step = 4, .lr = 2}}}), ExitCode::kUsage);
}

// By hand: 4 sequences of 10 tokens a step; 8 from step 6 on, 16 from step 9 on. A stage from 1,000 tokens
// (100 sequences) on: 20 before step 6, 24 in steps 6 to 8, so 56 more, three and a half steps of 16, are
// done with step 12, and it begins at step 13.
TEST(Schedule, ABatchThatHasGrownMovesSamplesAndStagesByTokens) {
  OptimOptions options{.lr = 2.0, .warmup_steps = 0, .schedule = Schedule::kConstant};
  options.stages = {{.from_tokens = 1000, .lr = 0.5}};
  const TrainOptions train{.steps = 100, .batch = 4, .sequence = 10};
  const std::vector<BatchGrowth> grown = {{6, 8}, {9, 16}};
  const TrainSchedule schedule(options, train, grown);
  EXPECT_EQ(schedule.batch(5), 4);
  EXPECT_EQ(schedule.batch(6), 8);
  EXPECT_EQ(schedule.batch(8), 8);
  EXPECT_EQ(schedule.batch(9), 16);
  EXPECT_EQ(schedule.batch(50), 16);
  EXPECT_EQ(schedule.first_sample(6), 20);
  EXPECT_EQ(schedule.first_sample(9), 44);
  EXPECT_EQ(schedule.first_sample(13), 108);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(12), 2.0);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(13), 0.5);
  EXPECT_EQ(TrainSchedule(options, train).learning_rate(25), 2.0) << "and at 4 sequences a step at step 26";
  EXPECT_EQ(TrainSchedule(options, train).learning_rate(26), 0.5);

  options.batch_lr_power = 0.5;
  const TrainSchedule with_root(options, train, grown);
  EXPECT_DOUBLE_EQ(with_root.learning_rate(5), 2.0);
  EXPECT_DOUBLE_EQ(with_root.learning_rate(6), 2.0 * std::sqrt(2.0));
  EXPECT_DOUBLE_EQ(with_root.learning_rate(9), 4.0);
  EXPECT_DOUBLE_EQ(with_root.learning_rate(13), 0.5) << "a stage says what it is";
  // Growth behind the stage, and with it on one step: the stage's rate and the grown batch.
  const TrainSchedule later(options, train, {{26, 8}, {30, 16}});
  EXPECT_EQ(later.batch(26), 8);
  EXPECT_DOUBLE_EQ(later.learning_rate(26), 0.5);
  EXPECT_DOUBLE_EQ(later.learning_rate(30), 0.5 * std::sqrt(2.0));
  EXPECT_EQ(later.first_sample(31), 25 * 4 + 4 * 8 + 16);
}

}  // namespace
}  // namespace longhaul::optim
