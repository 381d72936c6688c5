// A run's events gathered: steps, evaluations and growths that were done again count once, and what was given
// up does not count.
#include "observe/events/run_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul::observe {
namespace {

using ::testing::ElementsAre;

class HistoryOfARun : public ::testing::Test {
 protected:
  void add(EventBody body) { take(history_, {.common = {}, .body = std::move(body)}); }
  void steps(int64_t first, int64_t last, double loss) {
    for (int64_t step = first; step <= last; ++step) add(StepReport{.step = step, .loss = loss});
  }
  template <class Record>
  static std::vector<int64_t> steps_of(const std::vector<Record>& records) {
    std::vector<int64_t> steps;
    for (const Record& record : records) steps.push_back(record.step);
    return steps;
  }
  RunHistory history_;
};

TEST_F(HistoryOfARun, WhatIsBehindTheCheckpointOfAResumeIsVoid) {
  steps(1, 5, 2);
  for (const int64_t step : {2, 3, 4}) add(Evaluation{.step = step});
  for (const int64_t step : {3, 4}) add(BatchGrowth{.step = step, .batch = 8 * step});
  add(Resume{.step = 3});
  EXPECT_THAT(steps_of(history_.steps), ElementsAre(1, 2, 3));
  EXPECT_THAT(steps_of(history_.evaluations), ElementsAre(2, 3));
  EXPECT_THAT(steps_of(history_.growths), ElementsAre(3));
  EXPECT_EQ(history_.repeated_steps, 2);
  EXPECT_THAT(history_.resumes, ElementsAre(3));
  steps(4, 6, 1);
  EXPECT_THAT(steps_of(history_.steps), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(history_.steps[2].loss, 2);
  EXPECT_EQ(history_.steps[3].loss, 1);
  EXPECT_EQ(history_.repeated_steps, 2) << "each counted once";
}

// A start from the beginning says of no checkpoint that it goes on from it.
TEST_F(HistoryOfARun, AStepThatComesAgainTakesThePlaceOfTheEarlierOneAndOfAllBehindIt) {
  steps(1, 4, 2);
  add(Evaluation{.step = 4, .loss = 2});
  steps(2, 2, 1);
  EXPECT_THAT(steps_of(history_.steps), ElementsAre(1, 2));
  EXPECT_EQ(history_.steps.back().loss, 1);
  EXPECT_EQ(history_.repeated_steps, 3);
  add(Evaluation{.step = 4, .loss = 1});
  ASSERT_THAT(steps_of(history_.evaluations), ElementsAre(4));
  EXPECT_EQ(history_.evaluations[0].loss, 1);
}

// Two processes: the first one's peak was another, on another machine, and its shares stay as they are.
TEST_F(HistoryOfARun, AStepFasterThanThePeakRaisesItForItsWholeProcess) {
  const auto step = [&](int64_t number, double rate, double peak) {
    return StepReport{.step = number,
                      .mfu = rate / peak,
                      .mfu_full_attention = 2 * rate / peak,
                      .hfu = rate / peak,
                      .model_flops_per_second = rate};
  };
  RunStart start;
  start.peak_flops_per_second = 500;
  add(start);
  add(step(1, 250, 500));
  start.peak_flops_per_second = 1000;
  add(start);
  add(step(2, 250, 1000));
  StepReport fast = step(3, 2000, 2000);
  fast.peak_flops_per_second = 2000;
  fast.mfu_full_attention.reset();
  add(fast);
  add(step(4, 500, 2000));
  const auto shares = [&] {
    std::vector<double> all;
    for (const StepReport& each : history_.steps) all.push_back(*each.mfu);
    return all;
  };
  EXPECT_THAT(shares(), ElementsAre(0.5, 0.125, 1, 0.25));
  EXPECT_EQ(history_.steps[1].mfu_full_attention, 0.25);
  EXPECT_EQ(history_.steps[1].hfu, 0.125);
  EXPECT_EQ(history_.start->peak_flops_per_second, 2000);
  // A stream of an earlier version.
  add(step(5, 4000, 2000));
  EXPECT_THAT(shares(), ElementsAre(0.5, 0.0625, 0.5, 0.125, 1));
  EXPECT_EQ(history_.start->peak_flops_per_second, 4000);
}

TEST_F(HistoryOfARun, WhatOthersTookIsWeighedByTheTimeThatItWasToldOf) {
  EXPECT_EQ(taken_by_others(history_.steps), std::nullopt);
  const auto step = [&](int64_t number, double milliseconds, std::optional<double> taken) {
    add(StepReport{.step = number, .milliseconds = milliseconds, .taken_by_others = taken});
  };
  step(1, 600, std::nullopt);
  step(2, 600, 0.5);
  step(3, 3600, 0.1);
  step(4, 9999, std::nullopt);  // not told of yet
  EXPECT_DOUBLE_EQ(taken_by_others(history_.steps).value(), (1200 * 0.5 + 3600 * 0.1) / 4800);
  EXPECT_EQ(others_text(0.2), "other programs took 20.0 % of the run's cores");
  EXPECT_EQ(others_text(0.04), "");
  EXPECT_EQ(others_text(std::nullopt), "");
}

}  // namespace
}  // namespace longhaul::observe
