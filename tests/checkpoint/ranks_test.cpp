// Checkpoints of several ranks: what one layout saves every other loads, bit by bit, each value written once;
// and whatever a rank meets while it writes, all ranks are told the same, and there is a whole new checkpoint
// or the old one.
#include <gmock/gmock.h>

#include <array>

#include "base/files/temporary_folder.h"
#include "checkpoint/disk/shared_reads.h"
#include "checkpoint/load.h"
#include "comm/threads/run_ranks.h"
#include "ranks_for_tests.h"
#include "support/counting_reads.h"
#include "support/storage/fault_file_system.h"

namespace longhaul::checkpoint {
namespace {

using layout::Mesh;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SavingOnRanks : public ::testing::Test {
 protected:
  using Results = std::vector<SaveResult>;

  // Every rank of the mesh makes its training, does something to it and saves it. What each was told.
  Results save(const Mesh& mesh, int64_t step, const std::function<void(RankTraining&)>& prepare,
               int64_t generation = 1) {
    Results results(static_cast<size_t>(mesh.world()));
    comm::run_ranks(mesh.world(), [&](comm::Communicator& world) {
      RankTraining training({mesh, world.rank()});
      prepare(training);
      const auto tell = [&](const SaveResult& result) {
        results[static_cast<size_t>(world.rank())] = result;
      };
      storage::FileSystem& files =
          world.rank() == faulty_rank ? static_cast<storage::FileSystem&>(faulty) : disk;
      Saver saver(files, {.folder = folder.path(), .generation = generation, .on_result = tell},
                  group_of_writers(world));
      saver.save(step, training.state, {.run_id = "ranks"});
    });
    return results;
  }
  storage::Checkpoint newest() {
    return storage::open_checkpoint(disk, folder.path(), storage::Depth::kContents);
  }
  std::vector<std::string> files_of(const storage::Checkpoint& checkpoint) {
    std::vector<std::string> names;
    for (const auto& file : checkpoint.manifest().files) names.push_back(file.name);
    return names;
  }
  std::vector<std::string> folders() {
    std::vector<std::string> names;
    for (const auto& entry : disk.list(folder.path())) {
      if (entry.is_folder) names.push_back(entry.name);
    }
    return names;
  }

  storage::LocalFileSystem disk;
  TemporaryFolder folder;
  storage::FaultFileSystem faulty{disk};
  int64_t faulty_rank = -1;
};

// One process saves, the ranks load and save it plus one, one process loads that.
void save_load_save_load(const std::filesystem::path& folder, const Mesh& mesh) {
  storage::FileSystem& disk = storage::local_file_system();
  RankTraining single;
  fill(single, 100);
  auto wholes = wholes_of(single);
  {
    Saver saver(disk, {.folder = folder});
    saver.save(1, single.state, {});
  }
  const storage::Checkpoint first = storage::open_checkpoint(disk, folder, storage::Depth::kContents);
  comm::run_ranks(mesh.world(), [&](comm::Communicator& world) {
    RankTraining training({mesh, world.rank()});
    load_training_state(first, training.state, &world);
    expect_boxes_of(wholes, training);
    EXPECT_EQ(training.optimizer->steps(), single.optimizer->steps());
    for (StateEntry& entry : tensors_of(training.state)) entry.view.add_(1);
    Saver saver(disk, {.folder = folder}, group_of_writers(world));
    saver.save(2, training.state, {});
  });
  const storage::Checkpoint second = storage::open_checkpoint(disk, folder, storage::Depth::kContents);
  EXPECT_EQ(second.manifest().step, 2);
  EXPECT_EQ(second.manifest().world, mesh.world());
  EXPECT_EQ(second.manifest().tensors.size(), first.manifest().tensors.size());
  RankTraining loaded;
  load_training_state(second, loaded.state);
  for (auto& [name, whole] : wholes) whole = whole + 1;
  expect_boxes_of(wholes, loaded);
  EXPECT_EQ(loaded.optimizer->steps(), single.optimizer->steps());
}

TEST_F(SavingOnRanks, TensorParallelReplicas) { save_load_save_load(folder.path(), Mesh(4, {.tp = 2})); }
TEST_F(SavingOnRanks, StagesThatShareAnEmbedding) {
  save_load_save_load(folder.path(), Mesh(4, {.pp = 2, .tp = 2}));
}
TEST_F(SavingOnRanks, ExpertsAndContext) { save_load_save_load(folder.path(), Mesh(4, {.cp = 2, .ep = 2})); }
TEST_F(SavingOnRanks, PartsOfExperts) { save_load_save_load(folder.path(), Mesh(4, {.ep = 2, .etp = 2})); }
TEST_F(SavingOnRanks, ThreeReplicas) { save_load_save_load(folder.path(), Mesh(3, {})); }

TEST_F(SavingOnRanks, AReplicaIsWrittenOnceIntoAFileOfItsWriter) {
  const auto results = save(Mesh(4, {.tp = 2}), 7, [](RankTraining& training) { fill(training, 1); });
  for (const SaveResult& result : results) {
    EXPECT_FALSE(result.failure) << result.failure->what();
    EXPECT_EQ(result.path, folder / "step-000000007");
  }
  // Ranks 2 and 3 are the replicas of 0 and 1.
  EXPECT_THAT(files_of(newest()),
              ElementsAre("model-00001-of-00004.safetensors", "optimizer-00001-of-00004.safetensors",
                          "model-00002-of-00004.safetensors", "optimizer-00002-of-00004.safetensors"));
  int64_t stored = 0, whole = 0;
  const storage::Checkpoint saved = newest();
  for (const auto& [name, tensor] : saved.manifest().tensors) {
    for (const auto& shard : tensor.shards) stored += storage::rectangle_of(shard).volume();
    whole += layout::volume(tensor.shape);
  }
  EXPECT_EQ(stored, whole);
}

// Four copies of a model: each byte of the disk is read by one of the ranks, each of which reads some, and
// all have them.
TEST_F(SavingOnRanks, OfReplicasOneReadsForAll) {
  RankTraining single;
  fill(single, 100);
  const auto wholes = wholes_of(single);
  {
    Saver saver(disk, {.folder = folder.path()});
    saver.save(1, single.state, {});
  }
  std::array<storage::CountingReads, 4> files{storage::CountingReads(disk), storage::CountingReads(disk),
                                              storage::CountingReads(disk), storage::CountingReads(disk)};
  comm::run_ranks(4, [&](comm::Communicator& world) {
    const auto saved = storage::open_checkpoint(files[static_cast<size_t>(world.rank())], folder.path());
    RankTraining training({Mesh(4, {}), world.rank()});
    load_training_state(saved, training.state, &world);
    expect_boxes_of(wholes, training);
  });
  int64_t read = 0, stored = 0;
  for (const auto& of_rank : files) {
    EXPECT_GT(of_rank.tensor_bytes_read, 0);
    read += of_rank.tensor_bytes_read;
  }
  for (const auto& [name, whole] : wholes) stored += static_cast<int64_t>(whole.nbytes());
  EXPECT_EQ(read, stored);
}

// One rank meets a damaged file: it says what it found, the others that another could not read; nobody waits.
TEST_F(SavingOnRanks, WhereOneCannotReadNoneGoesOn) {
  save(Mesh(2, {}), 1, [](RankTraining& training) { fill(training, 1); });
  const storage::Checkpoint saved = newest();
  std::vector<std::string> told(2);
  comm::run_ranks(2, [&](comm::Communicator& world) {
    RankTraining training({Mesh(2, {}), world.rank()});
    const auto entries = tensors_of(training.state);
    const SharedReads reads(&world, entries);
    EXPECT_GT(reads.read_here(), 0);
    EXPECT_LT(reads.read_here(), static_cast<int64_t>(entries.size()));
    try {
      reads.run([&](const StateEntry&) {
        if (world.rank() == 1) throw Error({.code = ExitCode::kCheckpoint, .what = "rotten"});
      });
      ADD_FAILURE() << "rank " << world.rank();
    } catch (const Error& error) {
      told[static_cast<size_t>(world.rank())] = error.what();
    }
  });
  EXPECT_THAT(told[0], HasSubstr("another rank"));
  EXPECT_THAT(told[1], HasSubstr("rotten"));
}

// Whatever operation fails, on the rank that commits or on another one.
TEST_F(SavingOnRanks, WhereOneFailsNoneHasSavedAndAllKnow) {
  const Mesh mesh(2, {.tp = 2});
  int64_t step = 1, last_good = 1;
  save(mesh, step, [](RankTraining& training) { fill(training, 1); });
  for (const int64_t rank : {0, 1}) {
    faulty_rank = rank;
    int64_t failures = 0;
    for (int64_t operation = 0;; ++operation) {
      faulty.fail_at(operation, storage::FaultFileSystem::Fault::kIo);
      const auto results = save(mesh, ++step, [](RankTraining& training) { fill(training, 50); });
      const bool reached = faulty.operations() > operation;
      faulty.clear();
      EXPECT_EQ(results[0].failure.has_value(), results[1].failure.has_value())
          << "operation " << operation << " of rank " << rank;
      if (!results[0].failure) last_good = step;
      // Of a commit whose last sync failed nobody knows whether it will last; the next save stands beside it.
      const int64_t found = newest().manifest().step;
      EXPECT_TRUE(found == last_good || (found == step && rank == 0)) << found;
      if (!results[0].failure) {
        if (!reached) break;
        continue;  // behind the commit
      }
      ++failures;
      for (const SaveResult& result : results) {
        EXPECT_EQ(result.failure->code(), ExitCode::kDisk);
        EXPECT_THAT(result.failure->what(), HasSubstr("on rank " + std::to_string(rank)));
        EXPECT_TRUE(result.path.empty());
      }
    }
    EXPECT_GE(failures, rank == 0 ? 10 : 5) << "of rank " << rank;
    for (const auto& name : folders()) EXPECT_THAT(name, ::testing::Not(HasSubstr("tmp"))) << "left behind";
  }
}

TEST_F(SavingOnRanks, ALaterStartOfTheRunStopsAllRanks) {
  const Mesh mesh(2, {});
  const auto nothing = [](RankTraining&) {};
  save(mesh, 5, nothing, /*generation=*/2);
  for (const SaveResult& result : save(mesh, 6, nothing, /*generation=*/1)) {
    ASSERT_TRUE(result.failure);
    EXPECT_EQ(result.failure->code(), ExitCode::kFenced);
  }
  EXPECT_EQ(newest().manifest().step, 5);
}

// A tensor that only one of the stages lacks is not unknown; one that all of them lack is.
TEST_F(SavingOnRanks, ATensorThatNoRankHasAPlaceForIsRefused) {
  class Extra final : public StateProvider {
   public:
    std::vector<StateEntry> tensors() override {
      return {{.name = "task.more",
               .file = "task",
               .role = "task",
               .shape = {2},
               .held = layout::Rectangle::whole({2}),
               .view = at::ones({2})}};
    }
  } extra;
  RankTraining single;
  {
    Saver saver(disk, {.folder = folder.path()});
    saver.save(1, std::array<StateProvider*, 2>{&single.optimizer_state, &extra}, {});
  }
  const storage::Checkpoint more = newest();
  EXPECT_THAT(files_of(more), ElementsAre("model.safetensors", "optimizer.safetensors", "task.safetensors"));
  const Mesh mesh(2, {.pp = 2});
  comm::run_ranks(2, [&](comm::Communicator& world) {
    RankTraining training({mesh, world.rank()});
    try {
      load_training_state(more, training.state, &world);
      ADD_FAILURE() << "it was passed over";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kCheckpoint);
      EXPECT_THAT(error.what(), HasSubstr("task.more"));
    }
  });
}

}  // namespace
}  // namespace longhaul::checkpoint
