// A run's events gathered: steps, evaluations and growths that were done again count once, and what was given up does not count.
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

}  // namespace
}  // namespace longhaul::observe
