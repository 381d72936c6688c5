// A run with a memory tier around the task whose numbers are known: what a start goes on from, to the bit,
// when saves are due, what is told of those that fail, and that nothing is left behind. With model and ranks:
// tests/checkpoint/memory_tier_test.cpp, tests/cli/memory_tier_run_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>

#include "base/files/temporary_folder.h"
#include "plan/reliability/checkpoint_interval.h"
#include "storage/catalog.h"
#include "support/storage/wrapped_file_system.h"
#include "train/by_hand.h"
#include "train/trainer.h"

namespace longhaul::train {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct KilledRun {};  // thrown where a process is to end without a word

// The memory tier has no room while `full`.
class FullMemory final : public storage::WrappedFileSystem {
 public:
  using WrappedFileSystem::WrappedFileSystem;
  int64_t free_bytes(const fs::path& folder) const override { return full ? 0 : inner_.free_bytes(folder); }
  bool full = false;
};

class MemoryRun : public ::testing::Test {
 protected:
  TrainerOptions options(std::vector<std::string> more = {}, bool tier = true) const {
    std::vector<std::string> overrides{"train.steps=8",          "train.checkpoint_every=0",
                                       "train.evaluate_every=0", "optim.lr=0.5",
                                       "optim.warmup_steps=0",   "optim.schedule=constant",
                                       "train.dtype=fp64",       "train.checkpoint_memory_every=1"};
    overrides.insert(overrides.end(), more.begin(), more.end());
    TrainerOptions options{.recipe = recipe::load_defaults(overrides), .run_folder = folder_ / run};
    if (tier) options.tier = checkpoint::TierPlace{.tier = folder_ / "tier", .node = "a"};
    return options;
  }

  // One start of the run; killed behind that step. The weights it ended with.
  Tensor start(const TrainerOptions& options, int64_t killed_behind = -1) {
    testing::VectorTask task;
    if (loss_of) task.loss_of = loss_of;
    const auto optimizer =
        optim::make_optimizer(options.recipe.recipe.optim, task.parameters(), task.precision());
    fs::create_directories(folder_ / run);
    observe::EventWriter events({.path = folder_ / run / "events.jsonl"});
    testing::ScriptedControl control;
    parallel::Ranks alone;
    times_there_ = times_there;
    try {
      Trainer trainer(task, *optimizer, alone, events, files_, control, options);
      control.stop = [&] {
        if (trainer.step() == killed_behind && --times_there_ == 0) throw KilledRun();
        return 0;
      };
      trainer.resume();
      trainer.run();
    } catch (const KilledRun&) {
    }
    return task.value().clone();
  }

  template <class Type>
  std::vector<Type> events() const {
    std::vector<Type> found;
    for (const auto& event : observe::read_events(folder_ / run / "events.jsonl")) {
      if (const auto* body = std::get_if<Type>(&event.body)) found.push_back(*body);
    }
    return found;
  }
  std::vector<std::string> in_tier() const {
    std::vector<std::string> names;
    if (!fs::exists(folder_ / "tier")) return names;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / "tier"))
      names.push_back(entry.path().filename().string());
    return names;
  }
  Tensor uninterrupted() {
    run = "whole";
    const Tensor weights = start(options({}, false));
    run = "run";
    return weights;
  }

  TemporaryFolder folder_;
  std::string run = "run";
  std::function<Tensor(const Tensor& w, int64_t step, int64_t micro_batch)> loss_of;  // null: the task's own
  // behind a step before the process is killed there
  int64_t times_there = 1, times_there_ = 0;
  FullMemory files_{storage::local_file_system()};
};

TEST_F(MemoryRun, GoesOnFromTheLastStepToTheBit) {
  const Tensor whole = uninterrupted();
  start(options({"train.checkpoint_every=2"}), 5);
  EXPECT_THAT(in_tier(), Contains("step-000000005"));
  EXPECT_THAT(in_tier(), ::testing::Not(Contains("step-000000004")));
  EXPECT_TRUE(at::equal(start(options({"train.checkpoint_every=2"})), whole));
  const auto resumed = events<observe::Resume>();
  ASSERT_EQ(resumed.size(), 1u);
  EXPECT_EQ(resumed[0].step, 5);
  EXPECT_EQ(resumed[0].source, "memory");
  EXPECT_THAT(in_tier(), IsEmpty()) << "the run has ended, and its state is on the disk";
  EXPECT_EQ(storage::open_checkpoint(files_, folder_ / run, storage::Depth::kContents).manifest().step, 8);
}

// The machine was started again: its memory is empty, its own disk has the first of a minute's checkpoints.
TEST_F(MemoryRun, TheNodesOwnDiskHasWhatItsMemoryLost) {
  const Tensor whole = uninterrupted();
  TrainerOptions with_disk = options();
  with_disk.tier->disk = folder_ / "disk";
  start(with_disk, 5);
  fs::remove_all(folder_ / "tier");
  EXPECT_TRUE(at::equal(start(with_disk), whole));
  const auto resumed = events<observe::Resume>();
  ASSERT_EQ(resumed.size(), 1u);
  EXPECT_EQ(resumed[0].step, 1);
  EXPECT_EQ(resumed[0].source, "memory");
  for (const auto& entry : fs::recursive_directory_iterator(folder_ / "disk"))
    EXPECT_FALSE(entry.is_regular_file())
        << entry.path() << ": the run has ended, and its state is on the disk of all";
}

// The same step from the disk: to the bit what it is from memory.
TEST_F(MemoryRun, WhatComesFromMemoryIsWhatComesFromTheDisk) {
  start(options({"train.checkpoint_every=5"}), 5);
  fs::copy(folder_ / "run", folder_ / "from-disk", fs::copy_options::recursive);
  const Tensor from_memory = start(options());
  run = "from-disk";
  const Tensor from_disk = start(options({}, false));
  EXPECT_EQ(events<observe::Resume>().at(0).source, std::nullopt);
  EXPECT_EQ(events<observe::Resume>().at(0).step, 5);
  EXPECT_TRUE(at::equal(from_memory, from_disk));
}

TEST_F(MemoryRun, TheDiskIsTakenWhereItHasTheNewerOne) {
  const Tensor whole = uninterrupted();
  start(options(), 3);
  // of a later start, without the tier; it begins anew, for nothing is on the disk
  start(options({"train.checkpoint_every=4"}, false), 5);
  EXPECT_TRUE(at::equal(start(options()), whole));
  const auto resumed = events<observe::Resume>();
  ASSERT_EQ(resumed.size(), 1u);
  EXPECT_EQ(resumed[0].step, 4);
  EXPECT_EQ(resumed[0].source, std::nullopt);
}

// What seems to be the newest, on the disk, is damaged: memory has the newest that is whole.
TEST_F(MemoryRun, ADamagedNewerOneOnTheDiskIsPassedOver) {
  const Tensor whole = uninterrupted();
  start(options({"train.checkpoint_every=4", "train.checkpoint_memory_every=3"}), 4);
  const fs::path file = folder_ / run / "checkpoints" / "step-000000004" / "model.safetensors";
  ASSERT_TRUE(fs::exists(file));
  {
    std::fstream damaged(file, std::ios::in | std::ios::out | std::ios::binary);
    damaged.seekp(-1, std::ios::end);
    damaged.put(77);
  }
  EXPECT_TRUE(at::equal(start(options()), whole));
  EXPECT_EQ(events<observe::Resume>().at(0).step, 3);
  EXPECT_EQ(events<observe::Resume>().at(0).source, "memory");
}

// A state from memory is not yet on the disk, even where no step follows.
TEST_F(MemoryRun, TheLastStepFromMemoryIsSavedOnTheDisk) {
  start(options({"train.steps=9"}), 8);
  EXPECT_TRUE(storage::list_checkpoints(files_, folder_ / run / "checkpoints").empty());
  start(options());
  EXPECT_EQ(events<observe::Resume>().at(0).step, 8);
  EXPECT_EQ(storage::open_checkpoint(files_, folder_ / run).manifest().step, 8);
}

TEST_F(MemoryRun, AnotherRunsMemoryIsNotTaken) {
  start(options(), 5);
  run = "another";
  start(options(), 2);
  EXPECT_THAT(events<observe::Resume>(), IsEmpty());
  EXPECT_THAT(in_tier(), ::testing::Not(Contains("step-000000005"))) << "it has been cleared away";
}

TEST_F(MemoryRun, MemoryThatIsFullEndsNothingAndIsToldOnce) {
  const Tensor whole = uninterrupted();
  files_.full = true;
  EXPECT_TRUE(at::equal(start(options({"train.checkpoint_every=4"})), whole));
  const auto alarms = events<observe::Alarm>();
  ASSERT_EQ(alarms.size(), 1u);
  EXPECT_EQ(alarms[0].kind, "memory_checkpoint_failed");
  EXPECT_THAT(alarms[0].message, HasSubstr("no room"));
  EXPECT_EQ(events<observe::CheckpointSaved>().size(), 2u);
}

// Steps 45 and 47 jump: back to 35. Memory has step 46, and nothing of 35 yet. A process that dies there goes
// on there, and not from a step that was given up.
TEST_F(MemoryRun, WhatARollbackGivesUpIsGivenUpInMemoryToo) {
  loss_of = [](const Tensor& w, int64_t step, int64_t) {
    return (w * testing::VectorTask::slope()).sum() * (step == 45 || step == 47 ? 100 : 1);
  };
  const std::vector<std::string> with{"train.steps=60",           "train.checkpoint_every=5",
                                      "train.checkpoint_keep=0",  "optim.lr=0.001",
                                      "guard.on_spike=roll_back", "guard.spike_back=10",
                                      "optim.clip_norm=0",        "train.checkpoint_memory_every=23"};
  run = "whole";
  const Tensor whole = start(options(with, false));
  run = "run";
  times_there = 2;
  start(options(with), 35);
  ASSERT_EQ(events<observe::Resume>().size(), 1u) << "of the rollback";
  times_there = 1;
  EXPECT_TRUE(at::equal(start(options(with)), whole));
  const auto resumed = events<observe::Resume>();
  ASSERT_EQ(resumed.size(), 2u);
  EXPECT_EQ(resumed[0].step, 35);
  EXPECT_EQ(resumed[1].step, 35);
  EXPECT_EQ(resumed[1].source, std::nullopt) << "from the disk";
}

TEST_F(MemoryRun, NeverWhereTheRecipeSaysSo) {
  start(options({"train.checkpoint_memory_every=0"}), 5);
  EXPECT_THAT(in_tier(), IsEmpty());
}

TEST_F(MemoryRun, AsOftenAsItCostsAHundredthOfTheTime) {
  EXPECT_EQ(steps_between(0, 1), 1);
  EXPECT_EQ(steps_between(0.01, 1), 1);
  EXPECT_EQ(steps_between(0.011, 1), 2);
  EXPECT_EQ(steps_between(0.5, 0.1), 500);
  EXPECT_EQ(steps_between(1, 0), 1);
  // the first step's is saved, for nothing is known of costs
  start(options({"train.checkpoint_memory_every=-1"}), 5);
  EXPECT_THAT(in_tier(), Contains("manifest.json"));
}

// On the disk, as failures and costs say.
TEST_F(MemoryRun, DalysIntervalBetweenCheckpointsOnTheDisk) {
  recipe::TrainOptions train;
  train.mean_hours_to_failure = 3;
  SaveInterval interval(train, {});
  const auto ended = [](double pause_s, double writing_s) {
    return checkpoint::SaveResult{.blocking_milliseconds = pause_s * 1e3, .writing_seconds = writing_s};
  };
  interval.ended(ended(10, 30));
  EXPECT_NEAR(interval.interval_s(), 458.1, 0.2);
  interval.ended(ended(10, 600));
  EXPECT_NEAR(interval.interval_s(), 600, 0.2) << "never two at once";
  interval.ended(ended(600, 0));
  EXPECT_EQ(interval.interval_s(), 1800) << "at most half an hour";
  // three hours expected and three seen, four failures
  SaveInterval failing(train, {.trained_s = 3 * 3600, .failures = 3});
  failing.ended(ended(10, 0));
  EXPECT_NEAR(failing.interval_s(), plan::daly_interval_s(10, 1.5 * 3600), 0.2);
  EXPECT_FALSE(failing.due());
}

TEST_F(MemoryRun, EarlierStartsThatEndedWithoutAWordCountAsFailures) {
  start(options(), 3);
  start(options(), 5);
  start(options());
  const EarlierStarts earlier = earlier_starts(folder_ / run / "events.jsonl", 4);
  EXPECT_EQ(earlier.failures, 2);
  EXPECT_GT(earlier.trained_s, 0);
  EXPECT_EQ(earlier_starts(folder_ / run / "events.jsonl", 2).failures, 1);
  EXPECT_EQ(earlier_starts(folder_ / run / "events.jsonl", 1).failures, 0);
}

// A start that told of its own end by an error has failed too: a lost machine makes its ranks say so.
TEST_F(MemoryRun, EarlierStartsThatEndedByAnErrorCountAsFailures) {
  start(options({"train.steps=2"}));
  loss_of = [](const Tensor& w, int64_t step, int64_t) {
    return step == 4 ? testing::nan_gradient(w) : w.sum();
  };
  EXPECT_THROW(start(options({"train.skip_nonfinite=false"})), Error);
  ASSERT_EQ(events<observe::End>().size(), 2u);
  EXPECT_EQ(events<observe::End>().back().reason, "error");
  EXPECT_EQ(earlier_starts(folder_ / run / "events.jsonl", 3).failures, 1);
}

// Nothing but the last state would be saved; with four failures within milliseconds more are.
TEST_F(MemoryRun, WhereStartsFailedSoonTheNextOneSavesSoon) {
  const std::vector<std::string> often{"train.checkpoint_every=-1", "train.mean_hours_to_failure=1e-12",
                                       "train.checkpoint_memory_every=0", "train.steps=400"};
  for (int failure = 0; failure < 4; ++failure) start(options(often), 1);
  start(options(often));
  EXPECT_GE(events<observe::CheckpointSaved>().size(), 2u);
}

}  // namespace
}  // namespace longhaul::train
