// Files of /proc and /sys/fs/cgroup as machines of either version have them.
#include "base/memory/memory_group.h"

#include <gtest/gtest.h>

#include "base/files/file.h"
#include "base/files/temporary_folder.h"

namespace longhaul {
namespace {

class MemoryGroup : public ::testing::Test {
 protected:
  void put(const std::string& name, const std::string& text) const {
    make_folders((root_ / name).parent_path());
    write_text_atomically(root_ / name, text);
  }
  TemporaryFolder root_;
};

TEST_F(MemoryGroup, OfTheSecondVersion) {
  put("proc/7/cgroup", "0::/user.slice/run\n");
  EXPECT_EQ(memory_group_of(7, root_.path()), "") << "no such group here";
  put("sys/fs/cgroup/user.slice/run/memory.events",
      "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n");
  EXPECT_EQ(memory_group_of(7, root_.path()), root_ / "sys/fs/cgroup/user.slice/run");
  EXPECT_EQ(memory_kills_in(memory_group_of(7, root_.path())), 2);
  EXPECT_EQ(memory_group_of(8, root_.path()), "");
  EXPECT_EQ(memory_kills_in(""), std::nullopt);
}

TEST_F(MemoryGroup, OfTheFirstVersion) {
  put("proc/7/cgroup", "9:cpu,cpuacct:/a\n4:hugetlb,memory:/job/step\n0::/\n");
  put("sys/fs/cgroup/memory/job/step/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n");
  EXPECT_EQ(memory_group_of(7, root_.path()), root_ / "sys/fs/cgroup/memory/job/step");
  EXPECT_EQ(memory_kills_in(memory_group_of(7, root_.path())), 5);
}

}  // namespace
}  // namespace longhaul
