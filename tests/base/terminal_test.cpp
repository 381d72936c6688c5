#include "base/terminal.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>

#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/process/signals.h"

namespace longhaul {
namespace {

TEST(Say, AFullDiskIsNoErrorAndTheStreamIsUsedAgain) {
  std::FILE* full = std::fopen("/dev/full", "w");
  ASSERT_NE(full, nullptr);
  EXPECT_FALSE(say(full, "a message\n"));
  EXPECT_FALSE(std::ferror(full));
  EXPECT_THROW(write_stream(full, "a result\n"), Error);
  std::fclose(full);
}

TEST(Say, WritesAllOfIt) {
  std::FILE* file = std::tmpfile();
  EXPECT_TRUE(say(file, std::string("one\0two\n", 8)));
  EXPECT_EQ(std::ftell(file), 8);
  std::fclose(file);
}

// The default for SIGPIPE ends the process, which then has another code than that of what it did.
TEST(Say, APipeThatNobodyReadsEndsNothing) {
  ASSERT_EQ(std::signal(SIGPIPE, SIG_DFL), SIG_DFL);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ::close(ends[0]);
  std::FILE* stream = ::fdopen(ends[1], "w");
  EXPECT_FALSE(say(stream, "a message\n"));
  sigset_t pending;
  sigpending(&pending);
  EXPECT_EQ(sigismember(&pending, SIGPIPE), 0);
  sigset_t blocked;
  pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  EXPECT_EQ(sigismember(&blocked, SIGPIPE), 0);
  std::fclose(stream);
}

TEST(Say, ASignalThatWaitedBeforeStillWaits) {
  sigset_t pipe, before, pending;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, &before);
  ASSERT_EQ(::raise(SIGPIPE), 0);
  { const BrokenPipesAreErrors no_signal; }
  sigpending(&pending);
  EXPECT_EQ(sigismember(&pending, SIGPIPE), 1);
  constexpr std::timespec kNow{};
  EXPECT_EQ(sigtimedwait(&pipe, nullptr, &kNow), SIGPIPE);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// Lines of the logger and of progress bars are messages as well.
TEST(Say, LinesOfTheLoggerEndNothing) {
  const auto end_with_broken_stream = [] {
    std::signal(SIGPIPE, SIG_DFL);
    int ends[2];
    if (::pipe(ends) != 0) ::_exit(2);
    ::close(ends[0]);
    ::dup2(ends[1], STDERR_FILENO);
    log_warning("nobody reads this");
    say(stderr, "nor this\n");
    ::_exit(64);
  };
  EXPECT_EXIT(end_with_broken_stream(), testing::ExitedWithCode(64), "");
}

}  // namespace
}  // namespace longhaul
