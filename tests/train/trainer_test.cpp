// The loop around a task whose numbers are known: what a step is given and reports, when a run ends and on
// what, and that the state at the end is on the disk before anything else happens.
#include "train/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <set>

#include "base/files/temporary_folder.h"
#include "comm/threads/run_ranks.h"
#include "optim/outer/outer.h"
#include "storage/catalog.h"
#include "support/storage/fault_file_system.h"
#include "train/by_hand.h"

namespace longhaul::train {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Killed {};  // thrown where a process is to end without a word

class TrainerLoop : public ::testing::Test {
 protected:
  // One start of the run, as a process of its own would make it: what it ended with, or the error it threw.
  struct Start {
    std::optional<Outcome> outcome;
    std::optional<Error> error;
    Tensor weights;
  };

  TrainerOptions options(std::vector<std::string> more = {}) const {
    std::vector<std::string> overrides{
        "train.steps=6",   "train.checkpoint_every=0", "train.evaluate_every=0",  "optim.lr=0.5",
        "optim.eps=1",     "optim.warmup_steps=0",     "optim.schedule=constant", "optim.clip_norm=0",
        "train.dtype=fp64"};
    overrides.insert(overrides.end(), more.begin(), more.end());
    return {.recipe = recipe::load_defaults(overrides), .run_folder = folder_.path()};
  }

  Start start(const TrainerOptions& options, testing::ScriptedControl control = {}) {
    testing::VectorTask task;
    if (configure) configure(task);
    const auto optimizer =
        optim::make_optimizer(options.recipe.recipe.optim, task.parameters(), task.precision());
    observe::EventWriter events({.path = folder_ / "events.jsonl"});
    Start start;
    try {
      parallel::Ranks alone;
      Trainer trainer(task, *optimizer, alone, events, files_, control, options);
      trainer.resume();
      start.outcome = trainer.run();
    } catch (const Error& error) {
      start.error = error;
    } catch (const Killed&) {
    }
    start.weights = task.value().clone();
    return start;
  }

  template <class Type>
  std::vector<Type> events() const {
    std::vector<Type> found;
    for (const auto& event : observe::read_events(folder_ / "events.jsonl")) {
      if (const auto* body = std::get_if<Type>(&event.body)) found.push_back(*body);
    }
    return found;
  }
  // Names of all events from the given step report on.
  std::vector<std::string> names_after_step(int64_t step) const {
    std::vector<std::string> names;
    bool after = false;
    for (const auto& event : observe::read_events(folder_ / "events.jsonl")) {
      if (after) names.emplace_back(observe::name_of(event.body));
      const auto* report = std::get_if<observe::StepReport>(&event.body);
      after = after || (report != nullptr && report->step == step);
    }
    return names;
  }
  std::vector<int64_t> checkpoints() const {
    std::vector<int64_t> steps;
    for (const auto& found : storage::list_checkpoints(local_, folder_ / "checkpoints"))
      steps.push_back(found.name.step);
    std::ranges::sort(steps);
    return steps;
  }

  TemporaryFolder folder_;
  storage::LocalFileSystem local_;
  storage::FaultFileSystem files_{local_};
  std::function<void(testing::VectorTask&)> configure;
};

// NaN gradients at these steps, the usual ones at all others.
auto nan_at(std::set<int64_t> steps) {
  return [steps = std::move(steps)](testing::VectorTask& task) {
    task.loss_of = [steps](const Tensor& w, int64_t step, int64_t) {
      return steps.contains(step) ? testing::nan_gradient(w) : (w * testing::VectorTask::slope()).sum();
    };
  };
}

// A warm-up over 4 steps: the rate of each step shows in how far the weights move, and is what the report
// says.
TEST_F(TrainerLoop, EachStepHasItsOwnLearningRate) {
  const TrainerOptions with = options({"optim.warmup_steps=4"});
  const Start run = start(with);
  testing::Tensors by_hand{{"w", at::arange(1, 4, at::kDouble)}};
  testing::AdamwByHand adamw(with.recipe.recipe.optim);
  const auto reports = events<observe::StepReport>();
  ASSERT_EQ(reports.size(), 6u);
  for (int64_t s = 1; s <= 6; ++s) {
    const double lr = s < 4 ? 0.5 * static_cast<double>(s) / 4 : 0.5;
    adamw.step(by_hand, {{"w", testing::VectorTask::slope() / 4}}, lr);
    EXPECT_DOUBLE_EQ(reports[static_cast<size_t>(s - 1)].learning_rate, lr);
    EXPECT_EQ(reports[static_cast<size_t>(s - 1)].tokens, 10 * s);
  }
  EXPECT_LT((run.weights - by_hand["w"]).abs().max().item<double>(), 1e-12) << run.weights << by_hand["w"];
}

TEST_F(TrainerLoop, MfuIsWhatFlopsTimeAndPeakMakeIt) {
  TrainerOptions with = options();
  with.flops_per_token = {.causal = 3e6, .full_attention = 5e6};
  with.peak_flops_per_second = 2e18;  // beyond what a step of this task can be counted to do
  start(with);
  for (const auto& step : events<observe::StepReport>()) {
    const double tokens_per_second = 10 / (step.milliseconds / 1000);
    EXPECT_NEAR(step.tokens_per_second, tokens_per_second, 1e-9 * tokens_per_second);
    EXPECT_NEAR(*step.model_flops_per_second, 3e6 * tokens_per_second, 1e-3 * tokens_per_second);
    EXPECT_NEAR(*step.mfu, 3e6 * tokens_per_second / 2e18, 1e-21 * tokens_per_second);
    EXPECT_NEAR(*step.mfu_full_attention, 5e6 * tokens_per_second / 2e18, 1e-21 * tokens_per_second);
    EXPECT_EQ(step.taken_by_others, std::nullopt) << "nobody looked";
  }
}

TEST_F(TrainerLoop, TheLimitOfSkippedStepsIsExact) {
  configure = nan_at({2, 3, 5, 6, 7, 8});
  const Start run = start(options(
      {"train.steps=20", "train.nonfinite_limit=3", "train.checkpoint_every=1", "train.checkpoint_keep=0"}));
  ASSERT_TRUE(run.error);
  EXPECT_EQ(run.error->code(), ExitCode::kNumeric);
  EXPECT_THAT(run.error->what(), HasSubstr("3 steps in a row"));
  const auto reports = events<observe::StepReport>();
  ASSERT_EQ(reports.size(), 7u);  // 2 and 3 did not do; 5, 6, 7 did
  EXPECT_EQ(events<observe::NonFinite>().size(), 5u);
  EXPECT_THAT(checkpoints(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(events<observe::End>().back().reason, "error");
}

TEST_F(TrainerLoop, SkipsInARowAreCountedThroughAResume) {
  configure = nan_at({3, 4, 5});
  testing::ScriptedControl stopping;
  stopping.stop = [asked = 0]() mutable { return ++asked == 5 ? SIGTERM : 0; };  // before step 5
  EXPECT_EQ(start(options({"train.nonfinite_limit=3"}), stopping).outcome->step, 4);
  const Start resumed = start(options({"train.nonfinite_limit=3"}));
  ASSERT_TRUE(resumed.error) << "the two skips before the stop were forgotten";
  EXPECT_EQ(resumed.error->code(), ExitCode::kNumeric);
  EXPECT_EQ(events<observe::StepReport>().back().step, 5);
}

TEST_F(TrainerLoop, WhereNoStepMayBeSkippedTheFirstEndsTheRun) {
  configure = nan_at({4});
  const Start run = start(options({"train.skip_nonfinite=false", "train.checkpoint_every=2"}));
  ASSERT_TRUE(run.error);
  EXPECT_EQ(run.error->code(), ExitCode::kNumeric);
  EXPECT_THAT(run.error->what(), HasSubstr("layers.0.vector"));
  EXPECT_THAT(checkpoints(), ElementsAre(2));
  configure = nan_at({});
  EXPECT_TRUE(at::equal(run.weights, start(options({"train.steps=3"})).weights)) << "the step was applied";
}

TEST_F(TrainerLoop, CheckpointsAreKeptByTheirNumberAndBesidesByTheirStep) {
  start(options({"train.steps=12", "train.checkpoint_every=2", "train.checkpoint_keep=2",
                 "train.checkpoint_keep_every=4"}));
  EXPECT_THAT(checkpoints(), ElementsAre(4, 8, 10, 12));
}

// The save at the last step is one that checkpoint_every asks for, or the last one of all.
TEST_F(TrainerLoop, AFailedLastSaveIsTriedAgain) {
  for (const char* every : {"train.checkpoint_every=0", "train.checkpoint_every=6"}) {
    std::filesystem::remove_all(folder_ / "checkpoints");
    std::filesystem::remove(folder_ / "events.jsonl");
    files_.fail_at(0, storage::FaultFileSystem::Fault::kNoSpace);
    testing::ScriptedControl control;
    std::vector<double> pauses;
    control.wait = [&](double seconds) {
      pauses.push_back(seconds);
      // somebody made room
      if (pauses.size() == (std::string(every).ends_with("0") ? 2u : 1u)) files_.clear();
      return true;
    };
    const Outcome outcome = *start(options({every}), control).outcome;
    EXPECT_TRUE(outcome.saved);
    EXPECT_EQ(outcome.reason, "finished");
    EXPECT_THAT(checkpoints(), ElementsAre(6));
    EXPECT_GT(pauses.front(), 0);
    EXPECT_EQ(events<observe::Alarm>().size(), 2u);  // one for each failure
  }
}

TEST_F(TrainerLoop, ALastSaveThatCannotBeMadeIsSaidClearly) {
  start(options({"train.steps=2"}));
  files_.fail_at(0, storage::FaultFileSystem::Fault::kNoSpace);
  testing::ScriptedControl control;
  std::vector<double> pauses;
  control.wait = [&](double seconds) {
    pauses.push_back(seconds);
    return true;
  };
  const Outcome outcome = *start(options(), control).outcome;
  EXPECT_FALSE(outcome.saved);
  EXPECT_EQ(outcome.step, 6);
  EXPECT_EQ(pauses.size(), 3u);
  const auto alarms = events<observe::Alarm>();
  ASSERT_EQ(alarms.size(), 5u);  // four attempts, and what they come to
  EXPECT_EQ(alarms.front().kind, "disk_full");
  EXPECT_EQ(alarms.back().kind, "not_saved");
  EXPECT_THAT(alarms.back().message, HasSubstr("the state at step 6 is not on the disk"));
  EXPECT_THAT(alarms.back().message, HasSubstr("goes on from step 2, and does 4 again"));
}

TEST_F(TrainerLoop, ASignalEndsTheWaitBeforeAnotherSave) {
  files_.fail_at(0, storage::FaultFileSystem::Fault::kNoSpace);
  testing::ScriptedControl control;
  control.stop = [asked = 0]() mutable { return ++asked == 3 ? SIGTERM : 0; };
  int pauses = 0;
  control.wait = [&](double) { return ++pauses < 2; };
  const Outcome outcome = *start(options(), control).outcome;
  EXPECT_EQ(outcome.reason, "signal");
  EXPECT_EQ(outcome.signal, SIGTERM);
  EXPECT_FALSE(outcome.saved);
  EXPECT_EQ(pauses, 2);
}

TEST_F(TrainerLoop, TheStateIsSavedBeforeItIsJudged) {
  std::vector<std::vector<int64_t>> found;
  std::vector<bool> whole;
  configure = [&](testing::VectorTask& task) {
    task.on_evaluate = [&](bool all, const std::function<bool()>&) {
      found.push_back(checkpoints());
      whole.push_back(all);
      return observe::Metrics{{"loss", 1}};
    };
  };
  start(options({"train.evaluate_every=4"}));
  EXPECT_THAT(whole, ElementsAre(false, true));
  EXPECT_THAT(found, ElementsAre(ElementsAre(), ElementsAre(6)));
  EXPECT_THAT(names_after_step(6), ElementsAre("checkpoint", "evaluation", "sample", "end"));
}

// Killed in the last evaluation, the next start makes it, and the sample; the one after that finds nothing to
// do.
TEST_F(TrainerLoop, WhatFollowsTheLastStepIsDoneOnceHoweverOftenItIsKilled) {
  const TrainerOptions with = options({"train.evaluate_every=6"});
  configure = [](testing::VectorTask& task) {
    task.on_evaluate = [](bool, const std::function<bool()>&) -> std::optional<observe::Metrics> {
      throw Killed();
    };
  };
  EXPECT_FALSE(start(with).outcome);
  EXPECT_THAT(checkpoints(), ElementsAre(6));
  EXPECT_TRUE(events<observe::End>().empty());

  configure = nullptr;
  EXPECT_EQ(start(with).outcome->reason, "finished");
  EXPECT_EQ(events<observe::StepReport>().size(), 6u);
  EXPECT_EQ(events<observe::Evaluation>().size(), 1u);
  EXPECT_EQ(events<observe::Sample>().size(), 1u);
  EXPECT_EQ(events<observe::CheckpointSaved>().size(), 1u);

  EXPECT_EQ(start(with).outcome->reason, "finished");
  EXPECT_EQ(events<observe::Evaluation>().size(), 1u);
  EXPECT_EQ(events<observe::Sample>().size(), 1u);

  // A longer run ends anew.
  EXPECT_EQ(start(options({"train.evaluate_every=8", "train.steps=8"})).outcome->step, 8);
  EXPECT_EQ(events<observe::Evaluation>().size(), 2u);
  EXPECT_EQ(events<observe::Sample>().size(), 2u);
}

TEST_F(TrainerLoop, ASignalEndsAnEvaluationAndLeavesItForTheNextStart) {
  int stop = 0;
  const auto until_stopped = [&](bool,
                                 const std::function<bool()>& go_on) -> std::optional<observe::Metrics> {
    EXPECT_TRUE(go_on());
    stop = SIGINT;
    EXPECT_FALSE(go_on());
    return std::nullopt;
  };
  configure = [&](testing::VectorTask& task) { task.on_evaluate = until_stopped; };
  const TrainerOptions with = options({"train.evaluate_every=4"});
  testing::ScriptedControl control;
  control.stop = [&] { return stop; };
  const Outcome on_the_way = *start(with, control).outcome;  // in the evaluation of step 4
  EXPECT_EQ(on_the_way.reason, "signal");
  EXPECT_EQ(on_the_way.step, 4);
  EXPECT_TRUE(on_the_way.saved);

  stop = 0;
  const Outcome at_the_end = *start(with, control).outcome;
  EXPECT_EQ(at_the_end.reason, "signal");
  EXPECT_EQ(at_the_end.signal, SIGINT);
  EXPECT_EQ(at_the_end.step, 6);
  EXPECT_TRUE(at_the_end.saved);
  EXPECT_TRUE(events<observe::Evaluation>().empty());
  EXPECT_TRUE(events<observe::Sample>().empty());

  stop = 0;
  configure = nullptr;
  EXPECT_EQ(start(with, control).outcome->reason, "finished");
  EXPECT_EQ(events<observe::Evaluation>().size(), 1u);
  EXPECT_EQ(events<observe::Sample>().size(), 1u);
}

// Not one of several checkpoints is whole: a start that took this for no checkpoint would do everything again
// without a word.
TEST_F(TrainerLoop, DamagedCheckpointsAreNotPassedOverToTheBeginning) {
  start(options({"train.checkpoint_every=3"}));
  for (const auto& found : storage::list_checkpoints(local_, folder_ / "checkpoints")) {
    std::filesystem::resize_file(found.path / "model.safetensors", 100);
  }
  const Start again = start(options());
  ASSERT_TRUE(again.error);
  EXPECT_EQ(again.error->code(), ExitCode::kCheckpoint);
  EXPECT_THAT(again.error->what(),
              AllOf(HasSubstr("step-000000003"), HasSubstr("step-000000006"), HasSubstr("--fresh")));
}

// A disk that is not mounted: the run has saved, and its events say so.
TEST_F(TrainerLoop, CheckpointsThatAreGoneAreMissed) {
  start(options({"train.steps=4"}));
  std::filesystem::rename(folder_ / "checkpoints", folder_ / "elsewhere");
  const Start again = start(options());
  ASSERT_TRUE(again.error);
  EXPECT_EQ(again.error->code(), ExitCode::kCheckpoint);
  EXPECT_THAT(again.error->what(), AllOf(HasSubstr("checkpoints/step-000000004"), HasSubstr("--fresh")));
  EXPECT_EQ(events<observe::StepReport>().size(), 4u) << "no step was made anew";
  std::filesystem::remove_all(folder_ / "checkpoints");  // what the refused start claimed
  std::filesystem::rename(folder_ / "elsewhere", folder_ / "checkpoints");
  EXPECT_EQ(start(options()).outcome->step, 6);
}

// A run that never saved has lost nothing.
TEST_F(TrainerLoop, ARunThatDidNotSaveBeginsAnew) {
  observe::EventWriter({.path = folder_ / "events.jsonl"}).write(observe::RunStart{});
  EXPECT_EQ(start(options()).outcome->step, 6);
}

// A save that is asked for happens after the step, once for each request.
TEST_F(TrainerLoop, ASaveOnRequest) {
  testing::ScriptedControl control;
  control.save = [asked = 0]() mutable { return ++asked == 2; };
  start(options({"train.checkpoint_keep=0"}), control);
  EXPECT_THAT(checkpoints(), ElementsAre(2, 6));
}

TEST_F(TrainerLoop, AnotherRecipeIsRefusedOnResume) {
  start(options({"train.steps=2"}));
  const Start again = start(options({"train.seed=77"}));
  ASSERT_TRUE(again.error);
  EXPECT_EQ(again.error->code(), ExitCode::kUsage);
  EXPECT_THAT(again.error->what(), HasSubstr("train.seed"));
}

// A round's steps are counted, not its updates (docs/sources/co2.md §10): the second of two workers skips its
// second step, and both meet behind the third all the same. Each update takes lr · g away; behind the first
// round both have taken two and a half, behind the second three more.
TEST(TrainerOfWorkers, AStepThatOneSkipsIsOneOfItsRound) {
  TemporaryFolder folder;
  storage::LocalFileSystem files;
  const TrainerOptions options{
      .recipe = recipe::load_defaults({"train.steps=6", "train.checkpoint_every=0", "train.evaluate_every=0",
                                       "train.dtype=fp64", "optim.name=sgd", "optim.momentum=0",
                                       "optim.lr=0.5", "optim.warmup_steps=0", "optim.schedule=constant",
                                       "optim.clip_norm=0", "optim.outer=local_sgd", "optim.outer_every=3"}),
      .run_folder = folder.path()};
  const recipe::OptimOptions& optim = options.recipe.recipe.optim;
  const Tensor expected = at::arange(1, 4, at::kDouble) -
                          5.5 * 0.5 * 2 * testing::VectorTask::slope() / testing::VectorTask::kWeight;
  comm::run_ranks(2, [&](comm::Communicator& world) {
    parallel::Ranks ranks(world, {.mesh = layout::Mesh(1, {}), .workers = 2});
    testing::VectorTask task;
    if (world.rank() == 1) nan_at({2})(task);
    const auto optimizer = optim::make_optimizer(optim, task.parameters(), task.precision());
    optim::OuterLoop outer(optim.outer, *optimizer, task.parameters(), ranks);
    observe::EventWriter events({.path = folder / ("events" + std::to_string(world.rank()) + ".jsonl")});
    testing::ScriptedControl control;
    TrainerOptions own = options;
    own.outer = &outer;
    Trainer trainer(task, *optimizer, ranks, events, files, control, own);
    trainer.resume();
    EXPECT_EQ(trainer.run().step, 6);
    EXPECT_EQ(optimizer->steps(), world.rank() == 1 ? 5 : 6);
    EXPECT_EQ(outer.rounds(), 2);
    EXPECT_LT((task.value() - expected).abs().max().item<double>(), 1e-14)
        << world.rank() << task.value() << expected;
  });
}

}  // namespace
}  // namespace longhaul::train
