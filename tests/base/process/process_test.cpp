#include "base/process/process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "base/clock.h"
#include "base/error.h"

namespace longhaul {
namespace {

TEST(Process, CapturesBothStreamsAndTheStatus) {
  const ProcessResult result = run_process({"sh", "-c", "echo out; echo err >&2; exit 7"});
  EXPECT_EQ(result.status, 7);
  EXPECT_EQ(result.output, "out\n");
  EXPECT_EQ(result.errors, "err\n");
  EXPECT_FALSE(result.timed_out);
}

TEST(Process, TakesMoreThanAPipeHoldsOnBothStreams) {
  const ProcessResult result =
      run_process({"sh", "-c", "head -c 3000000 /dev/zero & head -c 3000000 /dev/zero >&2; wait"});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.output.size(), 3'000'000u);
  EXPECT_EQ(result.errors.size(), 3'000'000u);
}

TEST(Process, PassesArgumentsAsTheyAre) {
  EXPECT_EQ(run_process({"printf", "%s|", "a b", "", "$HOME", "'\"\n"}).output, "a b||$HOME|'\"\n|");
}

TEST(Process, AddsAndReplacesVariables) {
  setenv("LONGHAUL_TEST_OLD", "old", 1);
  setenv("LONGHAUL_TEST_KEPT", "kept", 1);
  const auto result =
      run_process({"sh", "-c", "echo $LONGHAUL_TEST_OLD $LONGHAUL_TEST_NEW $LONGHAUL_TEST_KEPT"},
                  {"LONGHAUL_TEST_OLD=replaced", "LONGHAUL_TEST_NEW=new"});
  EXPECT_EQ(result.output, "replaced new kept\n");
}

TEST(Process, StandardInputIsEmpty) { EXPECT_EQ(run_process({"cat"}).output, ""); }

TEST(Process, ReportsSignalsAs128PlusTheirNumber) {
  EXPECT_EQ(run_process({"sh", "-c", "kill -TERM $$"}).status, 128 + SIGTERM);
}

TEST(Process, ChildDoesNotInheritIgnoredPipeSignals) {
  signal(SIGPIPE, SIG_IGN);
  // With SIGPIPE ignored the shell's child would print "Broken pipe" instead of dying of it.
  EXPECT_EQ(run_process({"sh", "-c", "kill -PIPE $$; exit 3"}).status, 128 + SIGPIPE);
  signal(SIGPIPE, SIG_DFL);
}

// What is opened next must not become a standard stream: log lines would land in it.
TEST(StandardStreams, ThoseThatAreClosedAreOpenedOnNothing) {
  for (int closed = 1; closed < 8; ++closed) {  // every choice of the three
    const pid_t child = ::fork();
    if (child == 0) {
      for (int stream = 0; stream < 3; ++stream) {
        if ((closed >> stream & 1) != 0) ::close(stream);
      }
      open_standard_streams();
      struct stat stream_is {
      }, nothing{};
      ::stat("/dev/null", &nothing);
      for (int stream = 0; stream < 3; ++stream) {
        if ((closed >> stream & 1) == 0) continue;
        if (::fstat(stream, &stream_is) != 0 || stream_is.st_rdev != nothing.st_rdev) ::_exit(10 + stream);
        char byte = 0;
        if (stream == 0 ? ::read(stream, &byte, 1) != 0 : ::write(stream, "x", 1) != 1) ::_exit(20 + stream);
      }
      ::_exit(::open("/dev/zero", O_RDONLY) > 2 ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
        << "closed " << closed << ", status " << status;
  }
}

TEST(Process, UnknownProgramIsAUsageError) {
  try {
    run_process({"longhaul-no-such-program"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("longhaul-no-such-program"));
  }
}

TEST(Process, TimeOutKillsTheChildAndWhatItStarted) {
  const Stopwatch watch;
  const ProcessResult result = run_process({"sh", "-c", "echo $$; sleep 60 & sleep 60; echo never"}, {}, 0.3);
  EXPECT_LT(watch.seconds(), 10);
  EXPECT_TRUE(result.timed_out);
  EXPECT_EQ(result.status, 128 + SIGKILL);
  const pid_t group = std::stoi(result.output);
  // The background sleep belongs to the same group; its end may take the kernel a moment.
  while (kill(-group, 0) == 0 && watch.seconds() < 10) {
  }
  EXPECT_NE(kill(-group, 0), 0);
  EXPECT_EQ(result.output.find("never"), std::string::npos);
}

TEST(Process, TimeOutHoldsForAChildThatNeverStopsPrinting) {
  const Stopwatch watch;
  EXPECT_TRUE(run_process({"yes"}, {}, 0.1).timed_out);
  EXPECT_LT(watch.seconds(), 10);
}

TEST(Process, DoesNotWaitForAGrandchildThatKeepsThePipesOpen) {
  const Stopwatch watch;
  const ProcessResult result = run_process({"sh", "-c", "sleep 20 & echo done"});
  EXPECT_EQ(result.output, "done\n");
  EXPECT_EQ(result.status, 0);
  EXPECT_LT(watch.seconds(), 10);
}

TEST(Process, NeitherItNorItsChildrenWriteCoreDumps) {
  const auto soft_limit = [] { return run_process({"sh", "-c", "ulimit -S -c"}).output; };
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_CORE, &before), 0);
  if (before.rlim_max == 0) GTEST_SKIP() << "core dumps are forbidden for good here";
  rlimit allowed = before;
  allowed.rlim_cur = before.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_CORE, &allowed), 0);

  ASSERT_EQ(setenv("LONGHAUL_CORE_DUMPS", "1", 1), 0);
  forbid_core_dumps();
  EXPECT_NE(soft_limit(), "0\n");
  ASSERT_EQ(unsetenv("LONGHAUL_CORE_DUMPS"), 0);
  forbid_core_dumps();
  EXPECT_EQ(soft_limit(), "0\n");
  setrlimit(RLIMIT_CORE, &before);
}

}  // namespace
}  // namespace longhaul
