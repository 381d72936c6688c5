// Child processes under a loop: how they end is told at once, and nothing that they started stays.
#include "base/process/children.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

#include "base/clock.h"
#include "base/files/file.h"
#include "base/files/temporary_folder.h"
#include "base/process/process.h"

namespace longhaul {
namespace {

bool lives(pid_t process) { return ::kill(process, 0) == 0; }

TEST(Children, EndsAreToldWithinMilliseconds) {
  EventLoop loop;
  Children children(loop);
  std::vector<int> statuses;
  Stopwatch watch;
  double seen_s = 0;
  const auto ended = [&](int status) {
    statuses.push_back(status);
    seen_s = watch.seconds();
    if (statuses.size() == 2) loop.stop();
  };
  children.start({.argv = {"sh", "-c", "exit 7"}}, ended);
  const pid_t sleeper = children.start({.argv = {"sleep", "60"}}, ended);
  EXPECT_EQ(children.running(), 2u);
  loop.after(0.3, [&] {
    watch = Stopwatch();
    Children::signal(sleeper, SIGKILL);
  });
  loop.run();
  EXPECT_THAT(statuses, ::testing::ElementsAre(7, 137));
  EXPECT_LT(seen_s, 0.5);
  EXPECT_EQ(children.running(), 0u);
}

// A thread that was there before, as OpenMP's are, does not block SIGCHLD, and the kernel may give it to that
// one, where it is lost.
TEST(Children, EndsAreToldWhateverThreadTakesTheSignal) {
  std::atomic<bool> over = false;
  std::thread other([&] {
    while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  for (int round = 0; round < 5; ++round) {
    EventLoop loop;
    Children children(loop);
    int told = -1;
    children.start({.argv = {"sh", "-c", "sleep 0.05; exit 3"}}, [&](int status) {
      told = status;
      loop.stop();
    });
    loop.run_for(10);
    EXPECT_EQ(told, 3);
  }
  over = true;
  other.join();
}

TEST(Children, LogsGoOnOrBeginAnew) {
  const TemporaryFolder folder;
  EventLoop loop;
  Children children(loop);
  const auto run = [&](const std::string& text, bool truncates) {
    children.start({.argv = {"sh", "-c", "echo $WORD; echo said >&2"},
                    .environment = {"WORD=" + text},
                    .log = folder / "log",
                    .truncates_log = truncates},
                   [&](int) { loop.stop(); });
    loop.run();
  };
  run("one", false);
  run("two", false);
  EXPECT_EQ(read_text(folder / "log"), "one\nsaid\ntwo\nsaid\n");
  run("three", true);
  EXPECT_EQ(read_text(folder / "log"), "three\nsaid\n");
}

// The shell is killed; what it started, in its own group or behind a second parent's back, is killed or
// reaped as well.
TEST(Children, WhatAChildStartedEndsWithIt) {
  const TemporaryFolder folder;
  EventLoop loop;
  Children children(loop);
  const pid_t shell =
      children.start({.argv = {"sh", "-c", "sleep 60 & echo $!; wait"}, .log = folder / "log"},
                     [&](int) { loop.after(0.1, [&] { loop.stop(); }); });
  uint64_t timer = 0;
  timer = loop.every(0.01, [&] {
    if (read_text(folder / "log").empty()) return;
    loop.cancel(timer);
    ::kill(shell, SIGKILL);  // the shell alone
  });
  loop.run();
  const pid_t grandchild = std::stoi(read_text(folder / "log"));
  for (const Stopwatch watch; lives(grandchild) && watch.seconds() < 5;) loop.run_for(0.01);
  EXPECT_FALSE(lives(grandchild)) << "reaped too: it fell to this process";
}

TEST(Children, AChildDiesWithItsParentWhereItShall) {
  const TemporaryFolder folder;
  const pid_t parent = ::fork();
  if (parent == 0) {
    const pid_t child = start_child(
        {.argv = {"sh", "-c", "echo $$; exec sleep 60"}, .log = folder / "log", .death_signal = SIGKILL});
    static_cast<void>(child);
    while (read_text(folder / "log").empty()) ::usleep(1000);
    ::_exit(0);
  }
  EventLoop loop;
  Children children(loop);  // the orphan falls to this process
  loop.run_for(0.05);
  for (const Stopwatch watch; watch.seconds() < 5 && (!std::filesystem::exists(folder / "log") ||
                                                      read_text(folder / "log").empty());)
    loop.run_for(0.01);
  const pid_t child = std::stoi(read_text(folder / "log"));
  for (const Stopwatch watch; lives(child) && watch.seconds() < 5;) loop.run_for(0.01);
  EXPECT_FALSE(lives(child));
}

// Both wait for children: who started one hears how it ended, whatever the other does meanwhile.
TEST(Children, LeaveTheEndsOfOthersChildrenToThem) {
  EventLoop loop;
  Children children(loop);
  int64_t told = 0;
  std::atomic<int> wrong = 0;
  std::thread other([&] {
    for (int i = 0; i < 100; ++i) wrong += run_process({"sh", "-c", "exit 5"}).status == 5 ? 0 : 1;
  });
  for (int i = 0; i < 50; ++i) {
    children.start({.argv = {"sh", "-c", "exit 7"}}, [&](int status) {
      told += status == 7 ? 1 : 0;
      loop.stop();
    });
    loop.run_for(10);
  }
  other.join();
  EXPECT_EQ(told, 50);
  EXPECT_EQ(wrong, 0);
}

TEST(Children, AProgramThatIsNotThereIsAnExitCode) {
  EventLoop loop;
  Children children(loop);
  int got = 0;
  children.start({.argv = {"no-such-program-here"}}, [&](int status) {
    got = status;
    loop.stop();
  });
  loop.run();
  EXPECT_EQ(got, 70);
}

}  // namespace
}  // namespace longhaul
