// What a node's disk keeps of its memory tier: the newest that was committed, whole or not at all, and back
// again after a restart of the machine.
#include "checkpoint/memory_tier/node_disk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "base/files/temporary_folder.h"
#include "storage/files_for_tests.h"
#include "support/storage/fault_file_system.h"

namespace longhaul::checkpoint::node_disk_test {
namespace {

namespace fs = std::filesystem;
using storage::NodeTier;
using storage::SavedMoment;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class NodeDisks : public ::testing::Test {
 protected:
  void put(NodeTier& tier, const SavedMoment& moment, bool whole = true) {
    storage::write_test_files(files, tier.begin(moment), static_cast<uint64_t>(moment.step));
    if (whole) tier.put_manifest(moment, "of step " + std::to_string(moment.step));
  }
  static std::vector<SavedMoment> committed(const NodeTier& tier) {
    std::vector<SavedMoment> all;
    for (const auto& held : tier.held()) {
      if (!held.manifest.empty()) all.push_back(held.moment);
    }
    return all;
  }
  // The same names with the same bytes.
  static void expect_same(const fs::path& a, const fs::path& b) {
    std::map<std::string, std::string> contents[2];
    for (const auto& [which, folder] : {std::pair{0, a}, {1, b}}) {
      for (const auto& entry : fs::directory_iterator(folder)) {
        std::ifstream file(entry.path(), std::ios::binary);
        contents[which][entry.path().filename()] = std::string(std::istreambuf_iterator<char>(file), {});
      }
    }
    EXPECT_EQ(contents[0], contents[1]);
    EXPECT_EQ(contents[0].size(), 3U) << "two files and the manifest";
  }

  storage::LocalFileSystem files;
  TemporaryFolder folder;
  NodeTier memory{files, folder / "memory", "the run"}, disk{files, folder / "disk", "the run"};
};

TEST_F(NodeDisks, KeepTheNewestThatWasCommitted) {
  NodeDisk keeper(files, folder / "disk", folder / "memory", "the run", 0);
  for (const SavedMoment moment : {SavedMoment{1, 4}, {1, 9}, {2, 5}}) {
    put(memory, moment);
    keeper.offer(moment);
    keeper.wait();
    EXPECT_EQ(keeper.reading(), std::nullopt);
    EXPECT_THAT(committed(disk), ElementsAre(moment));
    expect_same(memory.folder_of(moment), disk.folder_of(moment));
  }
  keeper.forget();
  EXPECT_THAT(disk.held(), IsEmpty());
  EXPECT_EQ(committed(memory).size(), 3U) << "memory is not theirs";
}

TEST_F(NodeDisks, DoNotCopyMoreOftenThanTheyMay) {
  NodeDisk keeper(files, folder / "disk", folder / "memory", "the run", 3600);
  for (const int64_t step : {1, 2, 3}) {
    put(memory, {1, step});
    keeper.offer({1, step});
    keeper.wait();
  }
  EXPECT_THAT(committed(disk), ElementsAre(SavedMoment{1, 1}));
}

TEST_F(NodeDisks, FillMemoryThatIsEmptyOrOlder) {
  put(disk, {2, 8});
  put(disk, {3, 2}, /*whole=*/false);
  NodeDisk keeper(files, folder / "disk", folder / "memory", "the run", 0);
  keeper.refill();
  EXPECT_THAT(committed(memory), ElementsAre(SavedMoment{2, 8}));
  expect_same(memory.folder_of({2, 8}), disk.folder_of({2, 8}));
  put(memory, {2, 9});
  memory.remove_before({2, 9});
  keeper.refill();
  EXPECT_THAT(committed(memory), ElementsAre(SavedMoment{2, 9})) << "it is newer";
}

// Whatever fails of a copy: there is none, the one before it stays, and memory is as it was.
TEST_F(NodeDisks, ACopyThatFailsLeavesTheOneBefore) {
  put(memory, {1, 1});
  NodeDisk(files, folder / "disk", folder / "memory", "the run", 0).offer({1, 1});
  put(memory, {1, 2});
  int64_t failed = 0;
  for (int64_t calls = 0;; ++calls) {
    storage::FaultFileSystem faulty(files);
    faulty.fail_at(calls, storage::FaultFileSystem::Fault::kNoSpace);
    NodeDisk keeper(faulty, folder / "disk", folder / "memory", "the run", 0);
    keeper.offer({1, 2});
    keeper.wait();
    EXPECT_EQ(committed(memory).size(), 2U);
    const auto there = committed(disk);
    ASSERT_FALSE(there.empty()) << calls;
    if (there.front() == SavedMoment{1, 2} && there.size() == 1) break;
    ++failed;
  }
  EXPECT_GT(failed, 5);
  expect_same(memory.folder_of({1, 2}), disk.folder_of({1, 2}));
}

}  // namespace
}  // namespace longhaul::checkpoint::node_disk_test
