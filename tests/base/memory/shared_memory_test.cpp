// Folders in memory that processes share, and what is left of them. What is handed over there:
// tests/data/batch_share_test.cpp.
#include "base/memory/shared_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/process/process.h"

namespace longhaul {
namespace {

TEST(SharedMemoryFolder, OfARunThatDiedIsRemoved) {
  const std::filesystem::path memory = "/dev/shm";
  if (::access(memory.c_str(), W_OK) != 0) GTEST_SKIP() << "no /dev/shm here";
  const auto dead = memory / "longhaul-shared-test-of-a-dead-run";
  std::filesystem::create_directories(dead);
  // its process has ended
  const std::string gone = run_process({"/bin/sh", "-c", "printf $$"}, {}, 10).output;
  std::ofstream(dead / ("process-" + gone)).put(' ');
  const std::string name = "test-" + std::to_string(::getpid());
  const auto folder = shared_memory_folder(name);
  ASSERT_FALSE(folder.empty());
  EXPECT_FALSE(std::filesystem::exists(dead));
  { const MadeOnce last(folder, 2); }  // the last process leaves
  EXPECT_FALSE(std::filesystem::exists(folder));
}

}  // namespace
}  // namespace longhaul
