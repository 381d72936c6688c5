#include "observe/events/event_comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/files/temporary_folder.h"
#include "observe/events/event_log.h"

namespace longhaul::observe {
namespace {

using ::testing::HasSubstr;

void write_run(const std::filesystem::path& folder, const std::vector<EventBody>& bodies) {
  EventWriter writer({.path = folder / "events.jsonl"});
  for (const auto& body : bodies) writer.write(body);
}

std::vector<EventBody> steps(int count) {
  std::vector<EventBody> bodies = {RunStart{}};
  for (int step = 1; step <= count; ++step) {
    bodies.push_back(StepReport{.step = step,
                                .loss = 3.0 / step,
                                .tokens = step * 10,
                                .tokens_per_second = 1.0 * step,
                                .grad_norm = 1.0 / step});
  }
  return bodies;
}

StepReport& step_of(std::vector<EventBody>& bodies, int step) {
  return std::get<StepReport>(bodies[static_cast<size_t>(step)]);
}

TEST(Compare, EqualRunsThatDifferOnlyInTime) {
  const TemporaryFolder folder;
  auto a = steps(5), b = steps(5);
  step_of(b, 3).milliseconds = 99;
  step_of(b, 3).tokens_per_second = 7;
  write_run(folder / "a", a);
  write_run(folder / "b", b);
  const auto result = compare(folder / "a", folder / "b");
  EXPECT_TRUE(result.equal());
  EXPECT_EQ(result.steps_in_both, 5);
  EXPECT_EQ(result.text(), "5 steps are equal to the last bit\n");
}

TEST(Compare, NamesTheFirstStepThatDiffersInTheLastBit) {
  const TemporaryFolder folder;
  auto a = steps(6), b = steps(6);
  step_of(b, 3).grad_norm = std::nextafter(step_of(b, 3).grad_norm, 10);
  step_of(b, 4).loss = std::nextafter(step_of(b, 4).loss, 10);
  step_of(b, 6).loss += 0.5;
  write_run(folder / "a", a);
  write_run(folder / "b", b);
  const auto result = compare(folder / "a", folder / "b");
  EXPECT_FALSE(result.equal());
  EXPECT_EQ(result.first_step(), 3);
  ASSERT_EQ(result.differences.size(), 2u);
  EXPECT_EQ(result.differences[0].field, "grad_norm");
  EXPECT_EQ(result.differences[0].steps, 1);
  EXPECT_EQ(result.differences[1].field, "loss");
  EXPECT_EQ(result.differences[1].step, 4);
  EXPECT_EQ(result.differences[1].steps, 2);
  EXPECT_DOUBLE_EQ(result.differences[1].largest, 0.5);
  EXPECT_EQ(result.differences[1].largest_step, 6);
  EXPECT_THAT(result.text(), HasSubstr("step 3 is the first that differs"));
}

TEST(Compare, AResumedRunCountsAsWhatItBecame) {
  const TemporaryFolder folder;
  write_run(folder / "a", steps(6));
  auto b = steps(4);
  step_of(b, 4).loss = 77;  // was lost and done again
  b.push_back(RunStart{});
  b.push_back(Resume{.step = 3});
  for (int step = 4; step <= 6; ++step)
    b.push_back(StepReport{.step = step, .loss = 3.0 / step, .tokens = step * 10, .grad_norm = 1.0 / step});
  write_run(folder / "b", b);
  EXPECT_TRUE(compare(folder / "a", folder / "b").equal());
}

// Steps 5 and 6 were lost in a crash, and the run that goes on from step 3 has only got to 4.
TEST(Compare, StepsThatAResumeLostAreNotOfTheRun) {
  const TemporaryFolder folder;
  write_run(folder / "a", steps(4));
  auto b = steps(6);
  b.push_back(Evaluation{.step = 5, .loss = 1});
  b.push_back(RunStart{});
  b.push_back(Resume{.step = 3});
  b.push_back(StepReport{.step = 4, .loss = 3.0 / 4, .tokens = 40, .grad_norm = 1.0 / 4});
  write_run(folder / "b", b);
  const auto result = compare(folder / "a", folder / "b");
  EXPECT_TRUE(result.equal()) << result.text();
  EXPECT_TRUE(result.only_in_second.empty());
}

TEST(Compare, LengthsNanAndEvaluations) {
  const TemporaryFolder folder;
  auto a = steps(4), b = steps(7);
  step_of(a, 2).loss = step_of(b, 2).loss = std::nan("");
  step_of(b, 3).loss = std::nan("");
  a.push_back(Evaluation{.step = 4, .loss = 1});
  b.push_back(Evaluation{.step = 4, .loss = 2});
  write_run(folder / "a", a);
  write_run(folder / "b", b);
  const auto result = compare(folder / "a", folder / "b");
  EXPECT_EQ(result.only_in_first, (std::vector<int64_t>{}));
  EXPECT_EQ(result.only_in_second, (std::vector<int64_t>{5, 6, 7}));
  ASSERT_EQ(result.differences.size(), 2u);
  EXPECT_EQ(result.differences[0].step, 3);  // NaN in both is the same
  EXPECT_TRUE(std::isinf(result.differences[0].largest));
  EXPECT_EQ(result.differences[1].field, "evaluation.loss");
}

TEST(Compare, WhatATaskMeasures) {
  const TemporaryFolder folder;
  auto a = steps(3), b = steps(3);
  for (auto* events : {&a, &b}) {
    for (int64_t step = 1; step <= 3; ++step) step_of(*events, step).metrics["accuracy"] = 0.5;
  }
  step_of(b, 2).metrics["accuracy"] = 0.25;
  step_of(a, 1).metrics["memory/held_bytes"] = 1;  // where tensors lie is no number of the run
  step_of(a, 1).metrics["offload/waited_seconds"] = 1;
  a.push_back(evaluation_of(3, {{"solved", 1}}));
  b.push_back(evaluation_of(3, {{"solved", 0}}));
  write_run(folder / "a", a);
  write_run(folder / "b", b);
  const auto result = compare(folder / "a", folder / "b");
  ASSERT_EQ(result.differences.size(), 2u);
  EXPECT_EQ(result.differences[0].field, "metrics.accuracy");
  EXPECT_EQ(result.differences[0].step, 2);
  EXPECT_EQ(result.differences[0].largest, 0.25);
  EXPECT_EQ(result.differences[1].field, "evaluation.solved");
}

TEST(Compare, RunsWithoutACommonStepAreNotEqual) {
  const TemporaryFolder folder;
  write_run(folder / "a", steps(0));
  write_run(folder / "b", steps(3));
  EXPECT_FALSE(compare(folder / "a", folder / "b").equal());
}

}  // namespace
}  // namespace longhaul::observe
