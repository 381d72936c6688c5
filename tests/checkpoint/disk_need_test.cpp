// Whether a run's checkpoints fit, asked before the first one is written.
#include "checkpoint/disk/disk_need.h"

#include <gmock/gmock.h>

#include "support/storage/recording_file_system.h"
#include "training_for_tests.h"

namespace longhaul::checkpoint {
namespace {

using ::testing::HasSubstr;

const std::filesystem::path kCheckpoints = "/run/checkpoints";
constexpr int64_t kInDoubt = 40 << 10;  // of an estimate: headers, recipe, manifest

recipe::TrainOptions options(int64_t steps, int64_t every, int64_t keep, int64_t keep_every = 0) {
  recipe::TrainOptions train;
  train.steps = steps;
  train.checkpoint_every = every;
  train.checkpoint_keep = keep;
  train.checkpoint_keep_every = keep_every;
  return train;
}

TEST(DiskNeed, OneCheckpointIsWhatIsWrittenAndALittleMore) {
  TinyTraining training;
  storage::RecordingFileSystem disk;
  const int64_t planned = disk_need(disk, kCheckpoints, training.state(), options(10, 5, 3)).one_bytes;
  {
    Saver saver(disk, {.folder = kCheckpoints});
    saver.save(1, training.state(), training.manifest());
  }
  int64_t written = 0;
  const auto path = storage::list_checkpoints(disk, kCheckpoints).at(0).path;
  for (const auto& entry : disk.list(path)) written += disk.file_bytes(path / entry.name);
  EXPECT_GE(planned, written);
  EXPECT_LE(planned, written + kInDoubt);
}

TEST(DiskNeed, CountsTheCheckpointsThatAreThereAtOnce) {
  TinyTraining training;
  storage::RecordingFileSystem disk;
  const auto most = [&](const recipe::TrainOptions& train) {
    return disk_need(disk, kCheckpoints, training.state(), train).most;
  };
  EXPECT_EQ(most(options(100, 10, 3)), 4);  // a fourth is written before the oldest goes
  EXPECT_EQ(most(options(25, 10, 3)), 3);   // steps 10, 20 and 25
  EXPECT_EQ(most(options(100, 0, 3)), 1);
  EXPECT_EQ(most(options(100, 10, 0)), 10);
  EXPECT_EQ(most(options(100, 10, 2, 50)), 5);
  EXPECT_EQ(most(options(1'000'000, 1, std::numeric_limits<int64_t>::max())), 1'000'000);
}

TEST(DiskNeed, WarnsWhenOneOrAllOfThemDoNotFit) {
  TinyTraining training;
  storage::RecordingFileSystem disk;
  const auto with_free = [&](int64_t bytes) {
    disk.set_free_bytes(bytes);
    return disk_need(disk, kCheckpoints, training.state(), options(100, 10, 3));
  };
  const int64_t one = with_free(0).one_bytes;
  EXPECT_THAT(with_free(one - 1).warning().value_or(""), HasSubstr("not even one checkpoint fits"));
  EXPECT_THAT(with_free(one).warning().value_or(""), HasSubstr("one checkpoint fits, but not all"));
  EXPECT_THAT(with_free(4 * one - 1).warning().value_or(""), HasSubstr("train.checkpoint_keep"));
  EXPECT_EQ(with_free(4 * one).warning(), std::nullopt);
  // What lies there goes in time: it counts as room for all but the one that is written first.
  {
    Saver saver(disk, {.folder = kCheckpoints});
    for (int64_t step = 10; step <= 30; step += 10) saver.save(step, training.state(), training.manifest());
  }
  const int64_t there = with_free(0).there_bytes;
  int64_t state_bytes = 0;
  for (const auto& tensor : training.tensors()) state_bytes += static_cast<int64_t>(tensor.view.nbytes());
  EXPECT_GE(there, 3 * state_bytes);
  EXPECT_EQ(with_free(4 * one - there).warning(), std::nullopt);
  EXPECT_TRUE(with_free(one - 1).warning());
  EXPECT_EQ((DiskNeed{.one_bytes = int64_t{1} << 62, .most = 1000, .free_bytes = int64_t{1} << 62}
                 .warning()
                 .has_value()),
            true);
}

}  // namespace
}  // namespace longhaul::checkpoint
