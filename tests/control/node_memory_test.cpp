// What of a run stays in a node's shared memory, and what goes.
#include "control/node/node_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/files/file.h"
#include "base/files/temporary_folder.h"
#include "base/process/children.h"
#include "base/process/process.h"

namespace longhaul::control {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class NodeMemory : public ::testing::Test {
 protected:
  NodeMemory() : run_(fmt::format("node-memory-{}", process_id())) {
    for (const char* step : {"step-000000010.g1", "step-000000013.g2"}) {
      fs::create_directories(node() / "memory/run-0123456789abcdef" / step);
      std::ofstream(node() / "memory/run-0123456789abcdef" / step / "left-00001.safetensors") << "state";
    }
    fs::create_directories(node() / "boards");
  }
  ~NodeMemory() override { fs::remove_all(node().parent_path()); }
  fs::path node() const { return node_folder(run_, "node-0"); }
  std::string run_;
};

TEST_F(NodeMemory, GoesWhenTheDiskHasAsNewAState) {
  EXPECT_EQ(newest_step_in_memory(node()), 13);
  EXPECT_EQ(release_memory(run_, "node-0", 13), "");
  EXPECT_FALSE(fs::exists(node().parent_path()));
}

TEST_F(NodeMemory, WhatIsNewerThanTheDiskStaysAndItIsSaidWhere) {
  const std::string said = release_memory(run_, "node-0", 12);
  EXPECT_THAT(said,
              HasSubstr("the state of step 13 stays in memory (10 B), newer than the disk's of step 12"));
  EXPECT_THAT(said, HasSubstr("rm -r " + node().string()));
  EXPECT_TRUE(fs::exists(node() / "memory/run-0123456789abcdef/step-000000013.g2"));
  EXPECT_FALSE(fs::exists(node() / "boards"));
}

TEST_F(NodeMemory, AnotherNodeOfTheMachineKeepsItsOwn) {
  fs::create_directories(node_folder(run_, "node-1") / "memory");
  EXPECT_EQ(release_memory(run_, "node-0", 13), "");
  EXPECT_FALSE(fs::exists(node()));
  EXPECT_TRUE(fs::exists(node_folder(run_, "node-1")));
}

TEST(AbandonedRuns, GoWhenNobodyHasTouchedThemAndNoDaemonLives) {
  const TemporaryFolder memory;
  const auto make = [&](const std::string& hash, double age_s) {
    const fs::path run = memory.path() / fmt::format("longhaul-{}-{}", user_id(), hash);
    fs::create_directories(run / "node-0/memory/run-0123456789abcdef");
    const auto then = fs::file_time_type::clock::now() - std::chrono::seconds(static_cast<int64_t>(age_s));
    for (const fs::path& path :
         {run / "node-0/memory/run-0123456789abcdef", run / "node-0/memory", run / "node-0", run})
      fs::last_write_time(path, then);
    return run;
  };
  const fs::path old = make("00000000000000aa", 1000), recent = make("00000000000000bb", 10),
                 used = make("00000000000000cc", 1000);
  const fs::path changed = make("00000000000000dd", 1000);
  fs::last_write_time(changed / "node-0/memory/run-0123456789abcdef", fs::file_time_type::clock::now());
  const FileLock daemon(used / "node-0/daemon");
  fs::last_write_time(used / "node-0/daemon.lock",
                      fs::file_time_type::clock::now() - std::chrono::seconds(1000));
  fs::last_write_time(used / "node-0", fs::file_time_type::clock::now() - std::chrono::seconds(1000));
  fs::create_directories(memory.path() / "longhaul-shared-x");
  EXPECT_THAT(forget_abandoned_runs(500, memory.path()), ElementsAre(old));
  EXPECT_FALSE(fs::exists(old));
  for (const fs::path& stays : {recent, used, changed, memory.path() / "longhaul-shared-x"})
    EXPECT_TRUE(fs::exists(stays)) << stays;
}

}  // namespace
}  // namespace longhaul::control
