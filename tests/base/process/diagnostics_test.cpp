#include "base/process/diagnostics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <mutex>

#include "base/clock.h"
#include "base/files/file.h"
#include "base/files/temporary_folder.h"
#include "base/threads/worker.h"
#include "support/text.h"

namespace longhaul {
namespace {

using ::testing::HasSubstr;

// In a child, because the handler outlives the case. It dumps while a worker waits for a lock it will never
// get.
TEST(Diagnostics, ShowsEveryThreadOfAProcessThatHangs) {
  const TemporaryFolder folder;
  const auto file = folder / "diagnostics.txt";
  const pid_t child = fork();
  if (child == 0) {
    install_diagnostics();
    set_diagnostics_file(file);
    std::mutex held;
    held.lock();
    std::atomic<bool> started = false;
    Worker worker("stuck-worker");
    worker.post([&] {
      started = true;
      const std::lock_guard never(held);
    });
    while (!started) usleep(1000);
    raise(SIGUSR2);
    raise(SIGUSR2);  // appended, not in place of the first
    _exit(42);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 42);
  const std::string text = read_text(file);
  EXPECT_THAT(text, HasSubstr("diagnostics of process " + std::to_string(child)));
  EXPECT_EQ(testing::count_of(text, "end of diagnostics"), 2u);
  EXPECT_EQ(testing::count_of(text, "\"stuck-worker\", state S"), 2u);
  EXPECT_EQ(testing::count_of(text, "no answer"), 0u) << text;
  EXPECT_GE(testing::count_of(text, "pthread_mutex_lock"), 2u) << text;  // what the worker hangs in
  EXPECT_GE(testing::count_of(text, "VmRSS:"), 2u);
  EXPECT_GE(testing::count_of(text, "read_bytes:"), 2u);
}

TEST(Diagnostics, AThreadThatBlocksSignalsIsNamedAndNotWaitedForLong) {
  const TemporaryFolder folder;
  const auto file = folder / "diagnostics.txt";
  const pid_t child = fork();
  if (child == 0) {
    install_diagnostics();
    set_diagnostics_file(file);
    std::atomic<bool> started = false;
    Worker worker("deaf");
    worker.post([&] {
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, nullptr);
      started = true;
      pause();
    });
    while (!started) usleep(1000);
    const Stopwatch watch;
    raise(SIGUSR2);
    _exit(watch.seconds() < 10 ? 42 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 42);
  EXPECT_EQ(testing::count_of(read_text(file), "no answer"), 1u);
}

}  // namespace
}  // namespace longhaul
