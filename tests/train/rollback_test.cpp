// What a rollback does on the disk.
#include "train/rollback.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../storage/files_for_tests.h"
#include "support/storage/recording_file_system.h"

namespace longhaul::train {
namespace {

using ::testing::ElementsAre;

const std::filesystem::path kFolder = "/run/checkpoints";

class Rollback : public ::testing::Test {
 protected:
  void save(int64_t step) {
    storage::save_test_checkpoint(disk_, kFolder, step, 1, static_cast<uint64_t>(step));
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const storage::FolderEntry& entry : disk_.list(kFolder)) {
      if (entry.name.find("step-") != std::string::npos) names.push_back(entry.name);
    }
    return names;
  }
  storage::RecordingFileSystem disk_;
};

TEST_F(Rollback, GoesBackFarEnoughElseAsFarAsItCan) {
  for (const int64_t step : {10, 20, 30, 40}) save(step);
  std::vector<int64_t> steps;
  for (const RollbackTarget& target : rollback_targets(disk_, kFolder, /*spike=*/35, /*back=*/10))
    steps.push_back(target.step);
  EXPECT_THAT(steps, ElementsAre(20, 10, 30))
      << "20 is the newest ten steps before it, 30 the last resort, and 40 came after it";
}

// A person's step-….keep is not deleted by a spike.
TEST_F(Rollback, WhatIsKeptForGoodIsMovedAside) {
  for (const int64_t step : {10, 20, 30}) save(step);
  storage::write_synced(disk_, kFolder / "step-000000020.keep", "");
  EXPECT_EQ(give_up_later(disk_, kFolder, 10), 2);
  EXPECT_THAT(names(),
              ElementsAre("given-up-step-000000020", "given-up-step-000000020.keep", "step-000000010"));
  EXPECT_EQ(storage::find_newest_valid(disk_, kFolder).newest->manifest().step, 10) << "no start takes it";
  EXPECT_EQ(storage::open_checkpoint(disk_, kFolder / "given-up-step-000000020").manifest().step, 20);
  // Once more, of the same step.
  save(20);
  storage::write_synced(disk_, kFolder / "step-000000020.keep", "");
  give_up_later(disk_, kFolder, 10);
  EXPECT_THAT(names(), ElementsAre("given-up-step-000000020", "given-up-step-000000020-2",
                                   "given-up-step-000000020-2.keep", "given-up-step-000000020.keep",
                                   "step-000000010"));
}

}  // namespace
}  // namespace longhaul::train
