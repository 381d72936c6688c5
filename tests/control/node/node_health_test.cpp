// What a node daemon tells of its machine: the kernel's log, disks, memory, and checks that are asked for.
#include "base/files/small_disk.h"
#include "base/memory/memory_group.h"
#include "control/node/node_daemon_fixture.h"

namespace longhaul::control {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class NodeHealth : public NodeDaemonTest {};

// A daemon in a memory group has room beside its rank; with a sanitizer it takes many times as much.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int64_t kDaemonsMemory = int64_t{2} << 30;
#else
constexpr int64_t kDaemonsMemory = int64_t{64} << 20;
#endif

// What its machine tells goes to the driver, ranks or none; where nodes share a machine it is nobody's but
// for files that are given.
TEST_F(NodeHealth, WhatTheMachineTellsIsReported) {
  const fs::path log = folder_ / "machine/dev/kmsg";
  fs::create_directories(log.parent_path());
  std::ofstream{log};
  start_daemon("sleep 60", [&](NodeOptions& options) {
    options.machine_root.folder = folder_ / "machine";
    options.machine_root.nvidia_smi = "/nowhere/nvidia-smi";
    options.shares_machine = true;
  });
  ASSERT_TRUE(until([&] {
    std::ofstream(log, std::ios::app)
        << "4,1,1,-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n";
    return !healths_.empty();
  }));
  EXPECT_EQ(healths_[0].kind, "xid");
  EXPECT_EQ(healths_[0].code, 79);
  EXPECT_EQ(healths_[0].device, "GPU 0000:3b:00");
  EXPECT_THAT(healths_[0].text, HasSubstr("fallen off the bus"));
}

// A disk of the run that is nearly full, on a file system of its own.
TEST_F(NodeHealth, ADiskWithoutRoom) {
  const fs::path folder = folder_ / "run";
  const SmallDisk disk(folder, 4 << 20);
  if (!disk.usable()) GTEST_SKIP() << "this user may not mount a file system";
  start_daemon("sleep 60");
  ASSERT_TRUE(until([&] { return !hellos_.empty(); }));
  disk.fill();
  EXPECT_TRUE(until([&] { return !healths_.empty(); }));
  ::kill(daemon_, SIGKILL);
  wait_for_daemon();
  ASSERT_FALSE(healths_.empty());
  EXPECT_EQ(healths_[0].kind, "storage");
  EXPECT_EQ(healths_[0].code, ENOSPC);
  EXPECT_EQ(healths_[0].device, folder);
}

constexpr const char* kEatsMemory = "exec tail /dev/zero";

// The kernel takes a rank whose memory group has no more: that is told, and the group's own count or the
// kernel's log is how it is known.
TEST_F(NodeHealth, ARankThatTheKernelTookForMemory) {
  const LimitedMemory limit("daemon", kDaemonsMemory);
  if (!limit.usable()) GTEST_SKIP() << "this user can make no memory group";
  start_daemon(std::string("[ $RANK = 0 ] && ") + kEatsMemory + "; sleep 60");
  if (!limit.take_in(daemon_)) GTEST_SKIP() << "this user cannot move a process into a memory group";
  start_ranks(1, {0, 1});
  ASSERT_TRUE(until([&] { return !exits_.empty(); }));
  EXPECT_EQ(exits_[0].rank, 0);
  EXPECT_EQ(exits_[0].status, 137);
  EXPECT_TRUE(exits_[0].out_of_memory);
  ASSERT_TRUE(until([&] { return !beats_.empty() && beats_.back().running.size() == 1; }));
  ::kill(static_cast<pid_t>(beats_.back().running[0].pid), SIGKILL);
  ASSERT_TRUE(until([&] { return exits_.size() == 2; }));
  EXPECT_EQ(exits_[1].status, 137);
  EXPECT_FALSE(exits_[1].out_of_memory) << "somebody killed it";
  ::kill(daemon_, SIGKILL);
  wait_for_daemon();
}

// A program in another memory group that the kernel takes explains no rank's end.
TEST_F(NodeHealth, WhomTheKernelTookElsewhereIsNoRank) {
  const LimitedMemory limit("other", 64 << 20);
  if (!limit.usable()) GTEST_SKIP() << "this user can make no memory group";
  start_daemon("sleep 60");
  start_ranks(1, {0});
  const pid_t rank = running(1);
  ASSERT_GT(rank, 0);
  const pid_t other = ::fork();
  if (other == 0) {
    if (!limit.take_in(::getpid())) ::_exit(1);
    ::execl("/bin/sh", "sh", "-c", kEatsMemory, nullptr);
    ::_exit(1);
  }
  int status = 0;
  ::waitpid(other, &status, 0);
  if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
    GTEST_SKIP() << "the kernel did not end what had no memory";
  ::kill(rank, SIGKILL);
  ASSERT_TRUE(until([&] { return !exits_.empty(); }));
  EXPECT_EQ(exits_[0].status, 137);
  EXPECT_FALSE(exits_[0].out_of_memory);
}

// Checks before the first ranks are the quick ones, of the run's disk and of this machine alone; those of a
// stop are all.
TEST_F(NodeHealth, ChecksAreThoseOfTheSuite) {
  const auto check = [](const char* name) {
    return fmt::format(
        R"({{"name":"{}","status":"passed","found":"-","values":{{}},"fingerprints":[{{"name":"a","value":"b"}}]}})",
        name);
  };
  std::ofstream(folder_ / "report") << fmt::format(R"({{"node":"n","checks":[{},{}]}})", check("versions"),
                                                   check("product"));
  ::setenv("SLURM_STEP_ID", "3", 1);
  start_daemon("echo \"$@\" >> " + (folder_ / "typed").string() + "; echo \"[$SLURM_STEP_ID]\" >> " +
               (folder_ / "typed").string() + "; cat " + (folder_ / "report").string());
  ::unsetenv("SLURM_STEP_ID");
  fs::create_directories(folder_ / "run");
  ASSERT_TRUE(until([&] { return !hellos_.empty(); }));
  for (const std::string suite : {"preflight", "stop_time"}) {
    send(RunChecks{.id = static_cast<int64_t>(checks_.size()) + 1, .suite = suite, .limit_s = 30});
    const size_t before = checks_.size();
    ASSERT_TRUE(until([&] { return checks_.size() > before; }));
    EXPECT_EQ(checks_.back().suite, suite);
    ASSERT_EQ(checks_.back().checks.size(), 2U);
    for (const CheckResult& one : checks_.back().checks) EXPECT_TRUE(one.passed) << one.text;
    EXPECT_EQ(checks_.back().checks[0].signature, "") << "versions are compared by nobody";
    EXPECT_NE(checks_.back().checks[1].signature, "");
  }
  const std::string typed = read_text(folder_ / "typed");
  const std::string quick = typed.substr(0, typed.find('\n')),
                    deep = typed.substr(typed.find("diagnose", 10));
  for (const char* part :
       {"diagnose --json", "--check disk", "--check gpu", "--check network", "--check versions"})
    EXPECT_THAT(quick, HasSubstr(part));
  EXPECT_THAT(quick, Not(HasSubstr("--deep")));
  EXPECT_THAT(quick, HasSubstr("--folder " + (folder_ / "run").string()));
  EXPECT_THAT(deep, HasSubstr("--deep"));
  EXPECT_THAT(deep, Not(HasSubstr("--check")));
  EXPECT_THAT(typed, HasSubstr("[]"));
  EXPECT_THAT(typed, Not(HasSubstr("[3]"))) << "it is no rank of whoever started the daemon";
}

}  // namespace
}  // namespace longhaul::control
