// The ladder around a task whose losses are written down: sample k has the loss of all others, or a hundred
// times that. Weights are compared bit for bit with those of runs in which the same samples were left out by
// other means: by a NaN, or by a list that stood there from the beginning.
#include "train/guards/spike_ladder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <map>
#include <set>

#include "base/files/temporary_folder.h"
#include "storage/catalog.h"
#include "train/by_hand.h"
#include "train/trainer.h"

namespace longhaul::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Ladder : public ::testing::Test {
 protected:
  struct Run {
    Tensor weights;
    std::optional<Error> error;
    std::vector<observe::Alarm> alarms;
    std::vector<observe::StepReport> steps;
    std::vector<int64_t> resumes, checkpoints;
  };

  // Losses of samples (from 0) whose number is in `bad`, as often as it says; NaN at those in `nan`.
  Run run(const std::string& name, std::vector<std::string> more, std::map<int64_t, int> bad,
          std::set<int64_t> nan = {}, testing::ScriptedControl control = {}) {
    std::vector<std::string> overrides{
        "train.steps=60",          "train.checkpoint_every=5", "train.checkpoint_keep=0",
        "train.evaluate_every=0",  "optim.lr=0.001",           "optim.warmup_steps=0",
        "optim.schedule=constant", "optim.clip_norm=0",        "train.dtype=fp64"};
    overrides.insert(overrides.end(), more.begin(), more.end());
    const std::filesystem::path folder = folder_ / name;
    testing::VectorTask task;
    task.loss_of = [bad, nan](const Tensor& w, int64_t step, int64_t micro_batch) mutable {
      if (nan.contains(step - 1)) return testing::nan_gradient(w);
      const auto found = bad.find(step - 1);
      const bool now = found != bad.end() && found->second > 0;
      if (now && micro_batch == 1) --found->second;
      return (w * testing::VectorTask::slope()).sum() * (now ? 100 : 1);
    };
    const TrainerOptions options{.recipe = recipe::load_defaults(overrides), .run_folder = folder};
    const auto optimizer =
        optim::make_optimizer(options.recipe.recipe.optim, task.parameters(), task.precision());
    observe::EventWriter events({.path = folder / "events.jsonl"});
    Run result;
    try {
      parallel::Ranks alone;
      Trainer trainer(task, *optimizer, alone, events, files_, control, options);
      trainer.resume();
      trainer.run();
    } catch (const Error& error) {
      result.error = error;
    }
    result.weights = task.value().clone();
    for (const auto& event : observe::read_events(folder / "events.jsonl")) {
      if (const auto* alarm = std::get_if<observe::Alarm>(&event.body)) result.alarms.push_back(*alarm);
      if (const auto* step = std::get_if<observe::StepReport>(&event.body)) result.steps.push_back(*step);
      if (const auto* resume = std::get_if<observe::Resume>(&event.body))
        result.resumes.push_back(resume->step);
    }
    for (const auto& found : storage::list_checkpoints(files_, folder / "checkpoints"))
      result.checkpoints.push_back(found.name.step);
    std::ranges::sort(result.checkpoints);
    return result;
  }
  static std::vector<std::string> kinds(const Run& run) {
    std::vector<std::string> kinds;
    for (const auto& alarm : run.alarms) kinds.push_back(alarm.kind);
    return kinds;
  }

  static constexpr int kAlways = 1000;
  TemporaryFolder folder_;
  storage::LocalFileSystem files_;
};

TEST_F(Ladder, TellingChangesNothing) {
  const Run told = run("tell", {}, {{44, kAlways}}),
            off = run("off", {"guard.on_spike=off"}, {{44, kAlways}});
  EXPECT_THAT(kinds(told), ElementsAre("loss_spike"));
  EXPECT_THAT(told.alarms[0].message, HasSubstr("step 45"));
  EXPECT_THAT(kinds(off), IsEmpty());
  EXPECT_TRUE(told.weights.equal(off.weights));
}

TEST_F(Ladder, ASpikeThatComesAgainIsLeftOutAsANanWouldBe) {
  const Run skipped = run("skip", {"guard.on_spike=skip"}, {{44, kAlways}}),
            by_nan = run("nan", {"guard.on_spike=off"}, {}, {44});
  EXPECT_TRUE(skipped.weights.equal(by_nan.weights));
  EXPECT_THAT(kinds(skipped), ElementsAre("loss_spike"));
  ASSERT_EQ(skipped.steps.size(), 60u);
  EXPECT_TRUE(skipped.steps[44].skipped.value_or(false));
  EXPECT_GT(skipped.steps[44].loss, 10);
  EXPECT_FALSE(skipped.steps[45].skipped);
}

TEST_F(Ladder, ASpikeThatDoesNotComeAgainWasAnError) {
  const Run transient = run("transient", {"guard.on_spike=skip"}, {{44, 1}}), plain = run("plain", {}, {});
  EXPECT_TRUE(transient.weights.equal(plain.weights));  // what came out the second time was applied
  EXPECT_THAT(kinds(transient), ElementsAre("silent_corruption"));
  EXPECT_THAT(transient.alarms[0].message, HasSubstr("step 45 was computed twice"));
  EXPECT_FALSE(transient.steps[44].skipped);
  EXPECT_EQ(transient.steps[44].loss, plain.steps[44].loss);
}

TEST_F(Ladder, ARankThatErrsAgainIsNotTrusted) {
  const Run twice = run("twice", {"guard.on_spike=skip"}, {{44, 1}, {50, 1}});
  ASSERT_TRUE(twice.error);
  EXPECT_EQ(twice.error->code(), ExitCode::kDevice);
  EXPECT_THAT(twice.error->what(), HasSubstr("rank 0 computed other numbers 2 times"));
  EXPECT_EQ(twice.steps.back().step, 51);
}

// Steps 45 and 47: back to 35, and the samples of steps 38 to 47 are passed over.
TEST_F(Ladder, TheSecondSpikeGoesBackAndPassesOverTheData) {
  const std::vector<std::string> with{"guard.on_spike=roll_back", "guard.spike_back=10"};
  const Run rolled = run("rolled", with, {{44, kAlways}, {46, kAlways}});
  ASSERT_FALSE(rolled.error) << rolled.error->what();
  EXPECT_THAT(kinds(rolled), ElementsAre("loss_spike", "loss_spike", "rollback"));
  EXPECT_THAT(rolled.resumes, ElementsAre(35));
  const auto skips = data::read_skips(data::skip_file(folder_ / "rolled"));
  ASSERT_EQ(skips.size(), 1u);
  EXPECT_EQ(skips[0].range, (data::SampleRange{37, 47}));
  EXPECT_EQ(skips[0].by, "trainer");
  data::add_skip(data::skip_file(folder_ / "known"), {.range = {37, 47}, .by = "driver"});
  const Run known = run("known", with, {{44, kAlways}, {46, kAlways}});
  EXPECT_THAT(kinds(known), IsEmpty());
  EXPECT_TRUE(rolled.weights.equal(known.weights));
  EXPECT_EQ(rolled.steps.back().loss, known.steps.back().loss);
  EXPECT_EQ(rolled.steps.back().tokens, known.steps.back().tokens);
  // 40 and 45 of the course that was given up are those of the new one
  EXPECT_EQ(rolled.checkpoints, known.checkpoints);
}

TEST_F(Ladder, NansTwiceGoBackToo) {
  const Run rolled = run("nans", {"guard.on_spike=roll_back", "guard.spike_back=4"}, {}, {20, 25});
  ASSERT_FALSE(rolled.error);
  EXPECT_THAT(rolled.resumes, ElementsAre(20));  // 26 − 4 = 22
  EXPECT_EQ(data::read_skips(data::skip_file(folder_ / "nans"))[0].range, (data::SampleRange{22, 26}));
}

TEST_F(Ladder, SpikesFarApartAreLeftOutOneByOne) {
  const Run run = this->run("apart", {"guard.on_spike=roll_back"}, {{34, kAlways}, {54, kAlways}});
  EXPECT_THAT(run.resumes, IsEmpty());
  EXPECT_THAT(kinds(run), ElementsAre("loss_spike", "loss_spike"));
}

TEST_F(Ladder, TheRateFallsWithEachRollbackAndTheLastSpikeEndsTheRun) {
  std::map<int64_t, int> bad;
  for (int64_t sample = 40; sample < 400; sample += 3) bad[sample] = kAlways;
  const Run run = this->run(
      "ends",
      {"guard.on_spike=roll_back", "guard.spike_back=10", "guard.rollbacks=2", "guard.rate_factor=0.5"}, bad);
  ASSERT_TRUE(run.error);
  EXPECT_EQ(run.error->code(), ExitCode::kNumeric);
  EXPECT_THAT(run.error->what(), HasSubstr("after 2 rollbacks"));
  EXPECT_EQ(run.resumes.size(), 2u);
  EXPECT_DOUBLE_EQ(run.steps.front().learning_rate, 0.001);
  EXPECT_DOUBLE_EQ(run.steps.back().learning_rate, 0.00025);
  // Whoever starts it again is where it was: the rollbacks are not forgotten.
  const Run again = this->run(
      "ends",
      {"guard.on_spike=roll_back", "guard.spike_back=10", "guard.rollbacks=2", "guard.rate_factor=0.5"}, bad);
  ASSERT_TRUE(again.error);
  EXPECT_EQ(again.resumes.size(), 3u);  // its own start, and no rollback
}

TEST_F(Ladder, WithoutACheckpointThereIsNoWayBack) {
  const Run run = this->run("none", {"guard.on_spike=roll_back", "train.checkpoint_every=0"},
                            {{40, kAlways}, {41, kAlways}});
  ASSERT_TRUE(run.error);
  EXPECT_EQ(run.error->code(), ExitCode::kNumeric);
  EXPECT_THAT(run.error->what(), HasSubstr("no checkpoint to go back to"));
}

TEST_F(Ladder, ARunThatResumesJudgesAsOneThatWentOn) {
  const std::vector<std::string> with{"guard.on_spike=skip"};
  const Run whole = run("whole", with, {{44, kAlways}});
  testing::ScriptedControl stopping;
  stopping.stop = [asked = 0]() mutable { return ++asked == 44 ? SIGTERM : 0; };  // before step 44
  run("parts", with, {{44, kAlways}}, {}, stopping);
  const Run parts = run("parts", with, {{44, kAlways}});
  EXPECT_THAT(parts.resumes, ElementsAre(43));
  EXPECT_TRUE(parts.weights.equal(whole.weights));
  EXPECT_THAT(kinds(parts), ElementsAre("loss_spike"));
}

// A spike before the stop and one behind it: the second of two that lie close together, whoever has seen the
// first.
TEST_F(Ladder, TheFirstOfTwoSpikesIsNotForgottenBetweenStarts) {
  const std::vector<std::string> with{"guard.on_spike=roll_back", "guard.spike_back=10"};
  const std::map<int64_t, int> bad{{44, kAlways}, {48, kAlways}};
  const Run whole = run("whole", with, bad);
  ASSERT_THAT(kinds(whole), ElementsAre("loss_spike", "loss_spike", "rollback"));
  testing::ScriptedControl stopping;
  stopping.stop = [asked = 0]() mutable { return ++asked == 47 ? SIGTERM : 0; };  // before step 47
  run("parts", with, bad, {}, stopping);
  const Run parts = run("parts", with, bad);
  EXPECT_THAT(kinds(parts), ElementsAre("loss_spike", "loss_spike", "rollback"));
  EXPECT_THAT(parts.resumes, ElementsAre(46, 35));
  EXPECT_TRUE(parts.weights.equal(whole.weights));
}

// A finite spike is the ladder's, whatever is said of NaNs.
TEST_F(Ladder, WhatIsSaidOfNansDoesNotEndARunThatGoesBack) {
  const std::vector<std::string> with{"guard.on_spike=roll_back", "guard.spike_back=10"};
  const std::map<int64_t, int> bad{{44, kAlways}, {45, kAlways}};
  const Run usual = run("usual", with, bad);
  ASSERT_FALSE(usual.error);
  for (const std::string more : {"train.skip_nonfinite=false", "train.nonfinite_limit=1"}) {
    std::vector<std::string> all = with;
    all.push_back(more);
    const Run run = this->run(more, all, bad);
    ASSERT_FALSE(run.error) << more << ": " << run.error->what();
    EXPECT_THAT(kinds(run), ElementsAre("loss_spike", "loss_spike", "rollback")) << more;
    EXPECT_TRUE(run.weights.equal(usual.weights)) << more;
    const Run by_nan = this->run(more + ", nan", all, {}, {44});
    ASSERT_TRUE(by_nan.error) << more;
    EXPECT_EQ(by_nan.error->code(), ExitCode::kNumeric);
    EXPECT_EQ(by_nan.steps.back().step, 45);
  }
  const Run one = run("one", {"guard.on_spike=skip", "train.skip_nonfinite=false"}, {{44, kAlways}});
  EXPECT_FALSE(one.error) << one.error->what();
}

// Where nothing goes back, spikes without end do end the run.
TEST_F(Ladder, SpikesInARowEndARunThatOnlyLeavesThemOut) {
  const Run run = this->run("row", {"guard.on_spike=skip", "train.nonfinite_limit=3"},
                            {{40, kAlways}, {41, kAlways}, {44, kAlways}, {45, kAlways}, {46, kAlways}});
  ASSERT_TRUE(run.error);
  EXPECT_EQ(run.error->code(), ExitCode::kNumeric);
  EXPECT_THAT(run.error->what(), HasSubstr("3 steps in a row gave a NaN, an Inf or a spike"));
  EXPECT_EQ(run.steps.back().step, 47);
}

}  // namespace
}  // namespace longhaul::train
