// A node's tier: what is told of what lies there, what goes and what stays.
#include "storage/node_tier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files/temporary_folder.h"
#include "files_for_tests.h"

namespace longhaul::storage {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;

class NodeTiers : public ::testing::Test {
 protected:
  std::vector<SavedMoment> moments() const {
    std::vector<SavedMoment> all;
    for (const auto& held : tier.held()) all.push_back(held.moment);
    return all;
  }
  void put(const SavedMoment& moment, bool whole = true) {
    write_test_files(files, tier.begin(moment), 1);
    if (whole) tier.put_manifest(moment, "of step " + std::to_string(moment.step));
  }

  LocalFileSystem files;
  TemporaryFolder folder;
  NodeTier tier{files, folder / "node-a", "the run"};
};

TEST_F(NodeTiers, ALaterStartIsNewerThanALaterStep) {
  put({1, 9});
  put({2, 4});
  put({2, 5}, /*whole=*/false);
  EXPECT_THAT(moments(), ElementsAre(SavedMoment{2, 5}, SavedMoment{2, 4}, SavedMoment{1, 9}));
  EXPECT_EQ(tier.newest_generation(), 2);
  const auto held = tier.held();
  EXPECT_EQ(held[0].manifest, "");
  EXPECT_EQ(held[1].manifest, "of step 4");
  EXPECT_EQ(held[1].files.at("rank-00000.safetensors"),
            static_cast<int64_t>(fs::file_size(tier.folder_of({2, 4}) / "rank-00000.safetensors")));
  EXPECT_EQ(held[1].files.size(), 2u);
}

TEST_F(NodeTiers, WhatIsOlderGoesAndWhatALaterStartHasStays) {
  for (const SavedMoment moment : {SavedMoment{1, 9}, {2, 4}, {2, 5}, {3, 1}}) put(moment, moment.step != 4);
  tier.remove_before({2, 5});
  EXPECT_THAT(moments(), ElementsAre(SavedMoment{3, 1}, SavedMoment{2, 5}));
}

TEST_F(NodeTiers, WhatWasNotFinishedGoesAndWhatWasStays) {
  put({1, 1});
  put({1, 2}, /*whole=*/false);
  tier.remove_unfinished({1, 1});
  tier.remove_unfinished({1, 2});
  tier.remove_unfinished({1, 3});
  EXPECT_THAT(moments(), ElementsAre(SavedMoment{1, 1}));
}

TEST_F(NodeTiers, OnlyFoldersOfRunsGoWithOtherRuns) {
  put({1, 1});
  NodeTier other(files, folder / "node-a", "another run");
  other.put_manifest({1, 7}, "text");
  fs::create_directories(folder / "node-a" / "somebody-else's");
  tier.remove_other_runs();
  EXPECT_TRUE(other.held().empty());
  EXPECT_EQ(moments().size(), 1u);
  EXPECT_TRUE(fs::exists(folder / "node-a" / "somebody-else's"));
  tier.remove_run();
  EXPECT_TRUE(moments().empty());
  EXPECT_EQ(files.list(folder / "node-a").size(), 1u);
}

TEST_F(NodeTiers, AFolderThatIsNotThereHoldsNothing) {
  NodeTier nowhere(files, folder / "nowhere", "the run");
  EXPECT_TRUE(nowhere.held().empty());
  EXPECT_EQ(nowhere.newest_generation(), 0);
  nowhere.remove_before({1, 1});
  nowhere.remove_run();
  nowhere.remove_other_runs();
}

// Some of its files: what is missing, of another size or damaged is an error when it is read, and no earlier.
TEST_F(NodeTiers, ACheckpointOfWhichANodeHasSomeFiles) {
  const auto whole = save_test_checkpoint(files, folder / "checkpoints", 3, 1, 5);
  const Manifest manifest = read_manifest(files, whole);
  const fs::path some = tier.begin({1, 3});
  fs::copy_file(whole / "rank-00001.safetensors", some / "rank-00001.safetensors");
  const Checkpoint checkpoint = Checkpoint::open_some(files, some, manifest),
                   all = Checkpoint::open(files, whole);
  checkpoint.verify_file("rank-00001.safetensors");
  EXPECT_EQ(checkpoint.read_tensor("optimizer.count"), all.read_tensor("optimizer.count"));
  EXPECT_THROW(checkpoint.verify_file("rank-00000.safetensors"), Error);
  EXPECT_THROW(checkpoint.read_tensor("norm"), Error);
  fs::resize_file(some / "rank-00001.safetensors", fs::file_size(some / "rank-00001.safetensors") - 1);
  const Checkpoint torn = Checkpoint::open_some(files, some, manifest);
  EXPECT_THROW(torn.verify_file("rank-00001.safetensors"), Error);
  EXPECT_THROW(torn.read_tensor("optimizer.count"), Error);
}

}  // namespace
}  // namespace longhaul::storage
