// Files of shared memory, what the kernel tells of other processes, and the stacks that a process leaves for
// others.
#include "base/files/shared_file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <new>

#include "base/error.h"
#include "base/files/temporary_folder.h"
#include "base/process/diagnostics.h"
#include "base/process/loaded_library.h"
#include "base/process/process_threads.h"
#include "base/process/stack_area.h"
#include "base/threads/worker.h"

namespace longhaul {
namespace {

TEST(SharedFile, IsThereOnceItIsWhole) {
  const TemporaryFolder folder;
  SharedFile mine = SharedFile::create(folder / "memory", 8192);
  for (size_t i = 0; i < mine.size(); ++i) ASSERT_EQ(mine.data()[i], std::byte{0});
  EXPECT_FALSE(SharedFile::open(folder / "memory", 8192).has_value());
  mine.publish();
  const auto theirs = SharedFile::open(folder / "memory", 8192);
  ASSERT_TRUE(theirs.has_value());
  std::memcpy(mine.data() + 5000, "seen", 4);
  EXPECT_EQ(std::memcmp(theirs->data() + 5000, "seen", 4), 0);
  EXPECT_EQ(std::filesystem::status(folder / "memory").permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST(SharedFile, ANewOneLeavesTheOldToWhoHasIt) {
  const TemporaryFolder folder;
  SharedFile old = SharedFile::create(folder / "memory", 4096);
  old.publish();
  old.data()[0] = std::byte{1};
  const auto reader = SharedFile::open(folder / "memory", 4096);
  SharedFile next = SharedFile::create(folder / "memory", 4096);
  next.publish();
  EXPECT_EQ(reader->data()[0], std::byte{1});
  EXPECT_EQ(SharedFile::open(folder / "memory", 4096)->data()[0], std::byte{0});
}

TEST(SharedFile, OfAnotherSizeOrKindIsNone) {
  const TemporaryFolder folder;
  std::ofstream(folder / "small") << "abc";
  EXPECT_FALSE(SharedFile::open(folder / "small", 4096).has_value());
  std::filesystem::create_symlink(folder / "small", folder / "link");
  EXPECT_FALSE(SharedFile::open(folder / "link", 3).has_value());
  EXPECT_FALSE(SharedFile::open(folder / "nothing", 4096).has_value());
  try {
    SharedFile::create(folder / "no such folder" / "memory", 4096);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kDisk);
  }
}

TEST(LoadedCode, HoldsThisFunction) {
  const auto address = reinterpret_cast<uint64_t>(&kill);
  const auto own = reinterpret_cast<uint64_t>(&loaded_code);
  const std::vector<LoadedCode> code = loaded_code();
  ASSERT_FALSE(code.empty());
  EXPECT_EQ(code[0].file, std::filesystem::read_symlink("/proc/self/exe"));
  EXPECT_TRUE(own >= code[0].begin && own < code[0].end);
  bool found = false;
  for (const LoadedCode& each : code)
    found = found || (address >= each.begin && address < each.end && &each != &code[0]);
  EXPECT_TRUE(found) << "kill() of the C library";
}

// Without a word of its own.
TEST(ThreadsOfAProcess, AreKnownOfOneThatIsStopped) {
  const pid_t child = fork();
  if (child == 0) {
    raise(SIGSTOP);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
  const std::vector<ThreadState> threads = threads_of(child);
  ASSERT_EQ(threads.size(), 1u);
  EXPECT_EQ(threads[0].thread, child);
  EXPECT_EQ(threads[0].state, 'T');
  EXPECT_EQ(threads[0].name, threads_of(getpid()).front().name);
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  EXPECT_TRUE(threads_of(child).empty());
  EXPECT_FALSE(ask_for_diagnostics(child));
}

__attribute__((noinline)) void hang_here(std::atomic<bool>& begun) {
  begun = true;
  for (;;) pause();
}

TEST(StackArea, TakesTheStackOfEveryThread) {
  const TemporaryFolder folder;
  SharedFile memory = SharedFile::create(folder / "memory", sizeof(StackArea));
  auto* const area = new (memory.data()) StackArea;
  const pid_t child = fork();
  if (child == 0) {
    install_diagnostics();
    set_diagnostics_file(folder / "diagnostics.txt");
    set_diagnostics_area(area);
    std::atomic<bool> begun = false;
    Worker worker("stuck-worker");
    worker.post([&] { hang_here(begun); });
    while (!begun) usleep(1000);
    raise(SIGUSR2);
    raise(SIGUSR2);
    _exit(area->answers == 2 ? 42 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_EQ(WEXITSTATUS(status), 42);
  ASSERT_EQ(area->count, 2);
  EXPECT_STREQ(area->threads[1].name, "stuck-worker");
  EXPECT_STREQ(area->threads[1].state, "S");
  // The handlers are not among its frames: pause() of the C library, then the function above, within 100
  // bytes or so of its begin.
  ASSERT_GE(area->threads[1].count, 3);
  const auto begin = reinterpret_cast<uint64_t>(&hang_here);
  EXPECT_TRUE(area->threads[1].frames[1] > begin && area->threads[1].frames[1] < begin + 256);
}

__attribute__((noinline)) void crash_here(int* nowhere) { *nowhere = 7; }

// In a thread that blocks requests of others, as all but the first do; the process ends as it would have
// without.
TEST(StackArea, TakesTheStackOfAThreadThatCrashes) {
  const TemporaryFolder folder;
  SharedFile memory = SharedFile::create(folder / "memory", sizeof(StackArea));
  auto* const area = new (memory.data()) StackArea;
  const pid_t child = fork();
  if (child == 0) {
    struct rlimit no_core {};
    setrlimit(RLIMIT_CORE, &no_core);
    install_diagnostics();
    set_diagnostics_area(area);
    Worker worker("crashes");
    worker.post([] { crash_here(nullptr); });
    worker.wait();
    _exit(1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (area->crashed == 0) GTEST_SKIP() << "a sanitizer looks after crashes itself";
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGSEGV);
  EXPECT_EQ(area->crashed, SIGSEGV);
  ASSERT_EQ(area->count, 1);
  EXPECT_STREQ(area->threads[0].name, "crashes");
  ASSERT_GE(area->threads[0].count, 2);
  const auto begin = reinterpret_cast<uint64_t>(&crash_here);
  EXPECT_TRUE(area->threads[0].frames[0] >= begin && area->threads[0].frames[0] < begin + 64);
}

}  // namespace
}  // namespace longhaul
