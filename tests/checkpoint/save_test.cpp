// Saver: what is told of a save, what two saves in a row do to each other, how much is read back.
#include "checkpoint/disk/save.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>

#include "base/files/temporary_folder.h"
#include "checkpoint/load.h"
#include "checkpoint/published/naming.h"
#include "checkpoint/run_difference.h"
#include "support/counting_reads.h"
#include "support/storage/fault_file_system.h"
#include "support/storage/recording_file_system.h"
#include "training_for_tests.h"

namespace longhaul::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::filesystem::path kFolder = "/run/checkpoints";

class Saving : public ::testing::Test {
 protected:
  SaverOptions options(storage::RetentionPolicy retention = {}) {
    return {.folder = kFolder, .retention = retention, .on_result = [this](const SaveResult& result) {
              results.push_back(result);
            }};
  }
  std::vector<int64_t> steps_there() const {
    std::vector<int64_t> steps;
    for (const auto& summary : storage::list_checkpoints(disk, kFolder)) steps.push_back(summary.name.step);
    return steps;
  }

  TinyTraining training;
  storage::RecordingFileSystem disk;
  std::vector<SaveResult> results;
};

// Fails to give the name that `refused` is part of.
class NoRename final : public storage::WrappedFileSystem {
 public:
  using WrappedFileSystem::WrappedFileSystem;
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    if (!refused.empty() && to.filename().string().find(refused) != std::string::npos) {
      throw Error({.code = ExitCode::kDisk,
                   .what = "cannot rename",
                   .found = "Input/output error",
                   .where = to.string()});
    }
    inner_.rename(from, to);
  }
  std::string refused;
};

TEST_F(Saving, WhatFailsAfterTheCommitIsToldBesideIt) {
  NoRename files(disk);
  Saver saver(files, options({.keep_last = 1}));
  const auto save = [&](int64_t step) {
    saver.save(step, training.state(), training.manifest());
    saver.wait();
    return results.back();
  };
  save(1);
  files.refused = "latest";
  const SaveResult stale = save(2);
  EXPECT_FALSE(stale.failure);
  EXPECT_FALSE(saver.last_failure());
  ASSERT_EQ(stale.afterwards.size(), 1u);
  EXPECT_THAT(stale.afterwards[0].what(), HasSubstr("`latest`"));
  EXPECT_EQ(stale.path.filename(), "step-000000002");
  EXPECT_EQ(storage::open_checkpoint(disk, kFolder / storage::kLatestName).manifest().step, 2)
      << "a stale hint misleads nobody";

  files.refused = ".deleted-";
  const SaveResult crowded = save(3);
  EXPECT_FALSE(crowded.failure);
  ASSERT_EQ(crowded.afterwards.size(), 1u);
  EXPECT_THAT(crowded.afterwards[0].what(), HasSubstr("old checkpoints were not removed"));

  files.refused = "step-000000004";  // the commit itself
  const SaveResult lost = save(4);
  ASSERT_TRUE(lost.failure);
  EXPECT_EQ(lost.failure->code(), ExitCode::kDisk);
  EXPECT_THAT(lost.afterwards, IsEmpty());

  files.refused.clear();
  EXPECT_THAT(save(5).afterwards, IsEmpty());
  EXPECT_THAT(steps_there(), ElementsAre(5));
}

// Has room for so many checkpoints; a file of one more cannot be made.
class DiskOfSoMany final : public storage::WrappedFileSystem {
 public:
  using WrappedFileSystem::WrappedFileSystem;
  std::unique_ptr<storage::FileWriter> create(const std::filesystem::path& path) override {
    int64_t there = 0;
    for (const auto& entry : inner_.list(kFolder))
      there += entry.is_folder && entry.name.starts_with("step-") && entry.name.size() == 14;
    if (path.string().find(".tmp-") != std::string::npos && there >= room)
      throw Error({.code = ExitCode::kDisk, .what = "cannot write", .found = found, .where = path.string()});
    return inner_.create(path);
  }
  int64_t room = 100;
  std::string found = "No space left on device";
};

// What is older than the newest makes room for a newer one, but for what is to be kept; where that is not
// enough, or nothing can go, the save fails.
TEST_F(Saving, AFullDiskCostsOlderCheckpoints) {
  DiskOfSoMany files(disk);
  Saver saver(files, options({.keep_last = 3, .keep_every = 2}));
  const auto save = [&](int64_t step) {
    saver.save(step, training.state(), training.manifest());
    saver.wait();
    return results.back();
  };
  for (int64_t step = 1; step <= 4; ++step) save(step);
  ASSERT_THAT(steps_there(), ElementsAre(4, 3, 2));  // the last three, and multiples of two
  files.room = 3;
  const SaveResult saved = save(5);
  EXPECT_FALSE(saved.failure);
  EXPECT_EQ(saved.removed_for_room.size(), 1u) << "of step 3; 2 is a multiple of two and 4 the newest";
  EXPECT_THAT(steps_there(), ElementsAre(5, 4, 2));
  files.room = 2;
  const SaveResult lost = save(6);
  ASSERT_TRUE(lost.failure);
  EXPECT_EQ(lost.failure->code(), ExitCode::kDisk);
  EXPECT_THAT(steps_there(), ElementsAre(5, 4, 2)) << "the newest, and multiples of two: nothing may go";
  files.found = "Input/output error";
  files.room = 0;
  Saver other(files, options({.keep_last = 3}));
  other.save(7, training.state(), training.manifest());
  other.wait();
  ASSERT_TRUE(results.back().failure);
  EXPECT_TRUE(results.back().removed_for_room.empty()) << "room mends no broken disk";
  EXPECT_THAT(steps_there(), ElementsAre(5, 4, 2));
}

TEST_F(Saving, ASelfTestThatFindsDamageIsAFailure) {
  storage::FaultFileSystem files(disk);
  SaverOptions with_self_test = options();
  with_self_test.self_test = true;
  Saver saver(files, with_self_test);
  saver.save(1, training.state(), training.manifest());
  saver.wait();
  files.flip_bit_of_write(0, 5000, 3);
  saver.save(2, training.state(), training.manifest());
  saver.wait();
  EXPECT_FALSE(results[0].failure);
  ASSERT_TRUE(results[1].failure);
  EXPECT_EQ(results[1].failure->code(), ExitCode::kCheckpoint);
  EXPECT_EQ(storage::find_newest_valid(disk, kFolder).newest->manifest().step, 1);
}

TEST_F(Saving, ACheckpointIsReadBackAtMostOnce) {
  int64_t state_bytes = 0;
  for (const auto& tensor : training.tensors()) state_bytes += static_cast<int64_t>(tensor.view.nbytes());
  for (const bool self_test : {false, true}) {
    storage::CountingReads files(disk);
    SaverOptions counted = options({.keep_last = 2});
    counted.generation = self_test ? 2 : 1;
    counted.self_test = self_test;
    Saver saver(files, counted);
    for (int64_t step = 1; step <= 8; ++step) saver.save(step, training.state(), training.manifest());
    saver.wait();
    // Each by the self-test; without it those alone on whose strength others go: the 3rd, 5th and 7th.
    EXPECT_EQ(files.tensor_bytes_read, (self_test ? 8 : 3) * state_bytes);
    EXPECT_THAT(steps_there(), ElementsAre(8, 7));
  }
}

// The first file that is created waits until the door opens, or until it is clear that nobody will open it: a
// second save that waits for the first never does.
class SlowDisk final : public storage::WrappedFileSystem {
 public:
  using WrappedFileSystem::WrappedFileSystem;
  std::unique_ptr<storage::FileWriter> create(const std::filesystem::path& path) override {
    std::unique_lock lock(mutex_);
    arrived_ = true;
    changed_.notify_all();
    changed_.wait_for(lock, std::chrono::milliseconds(300), [this] { return open_; });
    open_ = true;
    return inner_.create(path);
  }
  void wait_until_writing() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return arrived_; });
  }
  void open_door() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool arrived_ = false, open_ = false;
};

TEST_F(Saving, ASecondSaveChangesNothingOfTheFirstThatIsStillBeingWritten) {
  SlowDisk files(disk);
  std::vector<Tensor> first;
  {
    Saver saver(files, options());
    for (const auto& tensor : training.tensors()) first.push_back(tensor.view.clone());
    saver.save(1, training.state(), training.manifest());
    files.wait_until_writing();
    training.add_to_weights(1);
    saver.save(2, training.state(), training.manifest());
    files.open_door();
  }
  EXPECT_FALSE(results.at(0).failure) << results[0].failure->what();
  EXPECT_FALSE(results.at(1).failure) << results[1].failure->what();
  for (const int64_t step : {1, 2}) {
    TinyTraining loaded;
    load_training_state(storage::Checkpoint::open(disk, results[static_cast<size_t>(step) - 1].path),
                        loaded.state());
    const auto state = loaded.tensors();
    for (size_t i = 0; i < state.size(); ++i) {
      EXPECT_TRUE(at::equal(state[i].view, step == 1 ? first[i] : first[i] + 1))
          << "step " << step << " " << state[i].name;
    }
  }
}

// The same of copies that the trainer has taken: the second is begun when the first is written and told.
TEST_F(Saving, ASecondSnapshotWaitsForTheFirst) {
  SlowDisk files(disk);
  CopyOut copies;
  Saver saver(files, options());
  for (const int64_t step : {1, 2}) {
    if (step == 2) files.wait_until_writing();
    storage::Manifest manifest = training.manifest();
    manifest.state = facts_of(training.state());
    const auto snapshot = copies.take(training.tensors());
    EXPECT_EQ(results.size(), 0u) << "nothing is told before somebody asks";
    saver.save(step, snapshot, std::move(manifest));
    EXPECT_EQ(results.size(), static_cast<size_t>(step - 1)) << "step " << step;
    training.add_to_weights(1);
  }
  files.open_door();
  saver.wait();
  ASSERT_EQ(results.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_FALSE(results[i].failure) << results[i].failure->what();
    EXPECT_EQ(results[i].step, static_cast<int64_t>(i) + 1);
    TinyTraining loaded, first;
    load_training_state(storage::Checkpoint::open(disk, results[i].path), loaded.state());
    const auto state = loaded.tensors(), begun = first.tensors();
    for (size_t t = 0; t < state.size(); ++t)
      EXPECT_TRUE(at::equal(state[t].view, begun[t].view + static_cast<double>(i))) << state[t].name;
  }
}

// A step that was saved by two starts: the later one's counts, as it does for whoever goes on from there.
TEST_F(Saving, RunsAreComparedByTheLastSaveOfAStep) {
  TemporaryFolder folder;
  storage::LocalFileSystem files;
  const auto save = [&](const std::string& run, int64_t generation, double more) {
    TinyTraining of_run;
    of_run.add_to_weights(more);
    Saver saver(files, {.folder = folder / run / "checkpoints", .generation = generation});
    saver.save(3, of_run.state(), of_run.manifest());
    saver.wait();
    ASSERT_FALSE(saver.last_failure()) << saver.last_failure()->what();
  };
  save("twice", 1, 1);
  save("twice", 2, 2);
  save("late", 1, 2);
  save("early", 1, 1);
  EXPECT_THAT(compare_runs(folder / "twice", folder / "late", 0).equal_steps, ElementsAre(3));
  EXPECT_EQ(compare_runs(folder / "twice", folder / "early", 0).step, 3);
}

// Another optimizer's states are an error, or where that is wanted left out: the weights come, the states
// stay at zero.
TEST_F(Saving, StatesOfAnotherOptimizer) {
  {
    Saver saver(disk, options());
    training.add_to_weights(1);
    saver.save(1, training.state(), training.manifest());
  }
  ASSERT_FALSE(results.at(0).failure);
  const auto saved = storage::Checkpoint::open(disk, results[0].path);
  for (const std::string name : {"came", "lion", "muon", "sgd"}) {
    TinyTraining other({"optim.name=" + name});
    EXPECT_THROW(load_training_state(saved, other.state()), Error) << name;
    TinyTraining fresh({"optim.name=" + name});
    load_training_state(saved, fresh.state(), nullptr, OptimizerStates::kFresh);
    std::map<std::string, Tensor> weights;
    for (const StateEntry& entry : training.tensors()) weights[entry.name] = entry.view;
    for (const StateEntry& entry : fresh.tensors()) {
      if (entry.role == kWeightRole)
        EXPECT_TRUE(at::equal(entry.view, weights.at(entry.name))) << entry.name;
      else
        EXPECT_EQ(entry.view.abs().max().item<double>(), 0) << entry.name;
    }
  }
}

// A task's state may come and go; each save holds what it was given, whatever the buffers held before.
TEST_F(Saving, TheListOfStateMayChangeFromSaveToSave) {
  class Growing final : public StateProvider {
   public:
    std::vector<StateEntry> tensors() override {
      const layout::Shape shape = values.sizes().vec();
      return {{.name = "task.values",
               .file = "task",
               .role = "task",
               .shape = shape,
               .held = layout::Rectangle::whole(shape),
               .view = values}};
    }
    Tensor values = at::arange(3, at::kLong);
  } growing;
  Saver saver(disk, {.folder = kFolder});
  for (int64_t step = 1; step <= 3; ++step) {
    growing.values = at::arange(2 * step, at::kLong);  // longer each time, at the front of the list
    saver.save(step, std::array<StateProvider*, 2>{&growing, &training.optimizer_state}, {});
    saver.wait();
    ASSERT_FALSE(saver.last_failure()) << saver.last_failure()->what();
    growing.values.zero_();
    load_training_state(storage::open_checkpoint(disk, kFolder),
                        std::array<StateProvider*, 2>{&growing, &training.optimizer_state});
    EXPECT_TRUE(at::equal(growing.values, at::arange(2 * step, at::kLong))) << step;
  }
}

// A disk with room for so many bytes of files, as it is when one is removed: room again.
class SmallDisk final : public storage::WrappedFileSystem {
 public:
  SmallDisk(storage::RecordingFileSystem& inner, int64_t bytes)
      : WrappedFileSystem(inner), recording_(inner), bytes_(bytes) {}
  std::unique_ptr<storage::FileWriter> create(const std::filesystem::path& path) override {
    class Writer final : public storage::FileWriter {
     public:
      Writer(SmallDisk& disk, std::unique_ptr<storage::FileWriter> inner)
          : disk_(disk), inner_(std::move(inner)) {}
      void write(std::span<const std::byte> data) override {
        if (disk_.used("/run") + static_cast<int64_t>(data.size()) > disk_.bytes_)
          throw Error({.code = ExitCode::kDisk, .what = "cannot write", .found = "No space left on device"});
        inner_->write(data);
      }
      void sync() override { inner_->sync(); }
      void close() override { inner_->close(); }

     private:
      SmallDisk& disk_;
      std::unique_ptr<storage::FileWriter> inner_;
    };
    return std::make_unique<Writer>(*this, inner_.create(path));
  }
  int64_t used(const std::filesystem::path& folder) const {
    int64_t bytes = 0;
    for (const storage::FolderEntry& entry : inner_.list(folder))
      bytes += entry.is_folder ? used(folder / entry.name) : recording_.file_bytes(folder / entry.name);
    return bytes;
  }

 private:
  storage::RecordingFileSystem& recording_;
  int64_t bytes_;
};

class OnASmallDisk : public Saving {
 protected:
  // Room for `checkpoints` of them, and a bit.
  SaveResult save_all(int64_t checkpoints, storage::RetentionPolicy retention, int64_t steps,
                      const std::string& kept = "") {
    Saver first(disk, options(retention));
    first.save(1, training.state(), training.manifest());
    first.wait();
    if (!kept.empty()) storage::write_synced(disk, kFolder / (kept + ".keep"), "");
    const int64_t one = SmallDisk(disk, 0).used("/run");
    SmallDisk small(disk, one * checkpoints + one / 2);
    Saver saver(small, options(retention));
    for (int64_t step = 2; step <= steps; ++step) {
      saver.save(step, training.state(), training.manifest());
      saver.wait();
    }
    return results.back();
  }
};

TEST_F(OnASmallDisk, OlderCheckpointsMakeRoom) {
  const SaveResult last = save_all(/*checkpoints=*/3, {.keep_last = 5}, /*steps=*/4);
  EXPECT_FALSE(last.failure) << last.failure->what();
  EXPECT_THAT(last.removed_for_room, ElementsAre(kFolder / "step-000000002", kFolder / "step-000000001"));
  EXPECT_THAT(steps_there(), ElementsAre(4, 3));
  EXPECT_EQ(storage::open_checkpoint(disk, kFolder, storage::Depth::kContents).manifest().step, 4);
}

TEST_F(OnASmallDisk, WhatIsKeptForGoodStays) {
  const SaveResult last = save_all(3, {.keep_last = 5, .keep_every = 2}, 4, "step-000000001");
  ASSERT_TRUE(last.failure);
  EXPECT_EQ(last.failure->code(), ExitCode::kDisk);
  EXPECT_THAT(last.removed_for_room, IsEmpty());
  EXPECT_THAT(steps_there(), ElementsAre(3, 2, 1)) << "1 is protected, 2 a multiple, 3 the newest";
}

TEST_F(OnASmallDisk, OfARunThatKeepsAllNothingGoes) {
  const SaveResult last = save_all(3, {.keep_last = INT64_MAX}, 4);
  EXPECT_TRUE(last.failure);
  EXPECT_THAT(steps_there(), ElementsAre(3, 2, 1));
}

// The newest is damaged: the one before it is all there is, and stays.
TEST_F(OnASmallDisk, NothingGoesThatIsNeeded) {
  Saver first(disk, options({.keep_last = 5}));
  for (const int64_t step : {1, 2, 3}) {
    first.save(step, training.state(), training.manifest());
    first.wait();
  }
  const auto file = kFolder / "step-000000003/model.safetensors";
  disk.flip_bit(file, disk.file_bytes(file) - 1, 0);
  SmallDisk small(disk, SmallDisk(disk, 0).used("/run") + 100);
  Saver saver(small, options({.keep_last = 5}));
  saver.save(4, training.state(), training.manifest());
  saver.wait();
  EXPECT_THAT(results.back().removed_for_room, ElementsAre(kFolder / "step-000000001"));
  EXPECT_EQ(storage::find_newest_valid(disk, kFolder).newest->manifest().step,
            results.back().failure ? 2 : 4);
  const auto left = steps_there();
  EXPECT_NE(std::ranges::find(left, 2), left.end());
}

}  // namespace
}  // namespace longhaul::checkpoint
