#include "base/files/small_disk.h"

#include <gtest/gtest.h>

#include "base/files/file.h"
#include "base/files/temporary_folder.h"
#include "base/machine/kernel_file.h"
#include "base/threads/worker.h"

namespace longhaul {
namespace {

// Who made it sees it. The machine's own mounts never have it, so that none is left there when this process
// is killed.
TEST(SmallDisk, IsNoMountOfTheMachine) {
  const TemporaryFolder folder;
  const auto disk = folder / "disk";
  const auto seen_in = [&](const char* mounts) {
    return kernel_text(mounts).find(disk.string()) != std::string::npos;
  };
  bool usable = false, seen = false, there = true;
  Worker worker("small disk");
  worker.post([&] {
    const SmallDisk made(disk, 1 << 20);
    usable = made.usable();
    seen = seen_in("/proc/thread-self/mounts");
    EXPECT_EQ(usable && seen_in("/proc/self/mounts"), false)
        << "other threads of the process, and everybody else";
  });
  worker.wait();
  if (!usable) GTEST_SKIP() << "this user may not mount";
  EXPECT_TRUE(seen);
  worker.post([&] { there = seen_in("/proc/thread-self/mounts"); });
  worker.wait();
  EXPECT_FALSE(there) << "it goes with the object";
}

TEST(SmallDisk, IsFullUntilItIsEmptied) {
  const TemporaryFolder folder;
  Worker worker("small disk");
  worker.post([&] {
    const SmallDisk disk(folder / "disk", 1 << 20);
    if (!disk.usable()) return;
    const auto file = folder / "disk" / "file";
    disk.fill();
    EXPECT_ANY_THROW(write_text_atomically(file, std::string(100'000, 'x')));
    disk.empty();
    EXPECT_NO_THROW(write_text_atomically(file, std::string(100'000, 'x')));
  });
  worker.wait();
}

}  // namespace
}  // namespace longhaul
