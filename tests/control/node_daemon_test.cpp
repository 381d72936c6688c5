// The node daemon as a process of its own, with this test as its driver and shell scripts as ranks: what they
// are started with, how soon their ends are told, what becomes of them when the driver goes, comes back, is
// of the past, or never comes.
#include "control/node/node_daemon.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <fstream>

#include "base/clock.h"
#include "base/files/small_disk.h"
#include "base/files/temporary_folder.h"
#include "base/machine/machine.h"
#include "base/memory/memory_group.h"
#include "base/net/secret.h"
#include "detect/samples/sample_ring.h"

namespace longhaul::control {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

bool process_lives(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string number, name, state;
  return static_cast<bool>(file >> number >> name >> state) && state != "Z";
}

class NodeDaemonTest : public ::testing::Test {
 protected:
  NodeDaemonTest()
      : run_(fmt::format("test-{}-{}", ::getpid(), ++count_)), keys_(driver_keys(folder_.path())) {
    fs::create_directories(folder_ / "control");
    listen();
  }
  ~NodeDaemonTest() override {
    if (daemon_ > 0) {
      ::kill(daemon_, SIGKILL);
      ::waitpid(daemon_, nullptr, 0);
    }
    std::error_code ignored;
    fs::remove_all(node_folder(run_, "node-0").parent_path(), ignored);
  }

  void listen() {
    listening_ = Socket::listen({"127.0.0.1", 0});
    write_text_atomically(folder_ / "control/address", fmt::format("127.0.0.1:{}\n", listening_.port()));
    loop_.watch(listening_.descriptor(), {.reads = true}, [this](Ready) {
      while (auto socket = listening_.accept()) {
        channel_ = Channel::make(
            loop_, std::move(*socket), Handshake(keys_, own_identity("driver", "", run_, generation_), true),
            {.message = [this](std::string_view text) { take(node_message(text, "node")); },
             .closed = [this](const Channel::Closing& closing) { closings_.push_back(closing); }});
      }
    });
  }
  void go_away() {
    channel_->close();
    loop_.forget(listening_.descriptor());
    listening_.close();
  }
  void take(NodeMessage message) {
    if (const auto* hello = std::get_if<NodeHello>(&message)) {
      hellos_.push_back(*hello);
      send(Welcome{.run = run_,
                   .generation = static_cast<int64_t>(generation_),
                   .beat_every_s = 0.1,
                   .lease_s = lease_s_,
                   .command = command_});
    }
    if (const auto* renewed = std::get_if<KeysRenewed>(&message))
      channel_->renew_receiving(std::to_string(renewed->generation));
    if (const auto* beat = std::get_if<NodeBeat>(&message)) beats_.push_back(*beat);
    if (const auto* exited = std::get_if<RankExited>(&message)) exits_.push_back(*exited);
    if (const auto* health = std::get_if<HealthReport>(&message)) healths_.push_back(*health);
    if (const auto* checks = std::get_if<CheckResults>(&message)) checks_.push_back(*checks);
  }
  void send(const DriverMessage& message) { channel_->send(to_text(message)); }

  // `script`: what each rank does.
  void start_daemon(
      const std::string& script, const std::function<void(NodeOptions&)>& change = [](NodeOptions&) {}) {
    std::ofstream(folder_ / "rank.sh") << "#!/bin/sh\n" << script << "\n";
    fs::permissions(folder_ / "rank.sh", fs::perms::owner_all);
    command_ = {.words = {"train", "recipe"},
                .options = {"--run", "here"},
                .environment = {"PASSED=by name"},
                .launched = "-n 4",
                .folder = folder_.path().string(),
                .run_folder = (folder_ / "run").string()};
    NodeOptions options{.driver = (folder_ / "control/address").string(),
                        .secret = folder_ / "secret",
                        .name = "node-0",
                        .slots = 4,
                        .program = (folder_ / "rank.sh").string()};
    change(options);
    daemon_ = ::fork();
    if (daemon_ != 0) return;
    int code = 99;
    try {
      code = static_cast<int>(NodeDaemon(options).run());
    } catch (const Error& error) {
      code = static_cast<int>(error.code());
    }
    ::_exit(code);
  }
  void start_ranks(int64_t generation, std::vector<int64_t> ranks) {
    ASSERT_TRUE(until([&] { return !hellos_.empty(); }));
    generation_ = static_cast<uint64_t>(generation);
    send(StartRanks{.generation = generation,
                    .world = 4,
                    .ranks = std::move(ranks),
                    .node_rank = 1,
                    .nodes = 2,
                    .master_address = "127.0.0.1",
                    .master_port = 4711,
                    .overrides = {"parallel.tp=1"}});
  }
  pid_t running(int64_t generation) {  // process of the first rank that runs
    const bool there = until([&] {
      return !beats_.empty() && beats_.back().generation == generation && !beats_.back().running.empty();
    });
    return there ? static_cast<pid_t>(beats_.back().running.front().pid) : -1;
  }
  int wait_for_daemon(double timeout_s = 10) {
    int status = 0;
    for (const Stopwatch watch; watch.seconds() < timeout_s;) {
      loop_.run_for(0.01);
      if (::waitpid(daemon_, &status, WNOHANG) != daemon_) continue;
      daemon_ = -1;
      return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    return -1;
  }
  template <class Condition>
  bool until(const Condition& condition, double timeout_s = 15) {
    for (const Stopwatch watch; watch.seconds() < timeout_s && !condition();) loop_.run_for(0.005);
    return condition();
  }

  static inline int count_ = 0;
  TemporaryFolder folder_;
  std::string run_;
  Keys keys_;
  uint64_t generation_ = 0;
  double lease_s_ = 60;
  EventLoop loop_;
  Socket listening_;
  std::shared_ptr<Channel> channel_;
  RunCommand command_;
  pid_t daemon_ = -1;
  std::vector<NodeHello> hellos_;
  std::vector<NodeBeat> beats_;
  std::vector<RankExited> exits_;
  std::vector<HealthReport> healths_;
  std::vector<CheckResults> checks_;
  std::vector<Channel::Closing> closings_;
};

TEST_F(NodeDaemonTest, RanksGetTheirEnvironmentAndTheirEndsAreTold) {
  ::setenv("SOME_TOKEN", "not for ranks", 1);
  ::setenv("OMP_WAIT_POLICY", "passive", 1);
  start_daemon("echo \"$@\"; env; pwd; exit $RANK");
  start_ranks(3, {2, 3});
  ASSERT_TRUE(until([&] { return exits_.size() == 2; }));
  std::map<int64_t, RankExited> by_rank;
  for (const RankExited& one : exits_) by_rank[one.rank] = one;
  EXPECT_EQ(by_rank[2].status, 2);
  EXPECT_EQ(by_rank[3].status, 3);
  EXPECT_FALSE(by_rank[3].stopped);
  EXPECT_EQ(by_rank[3].generation, 3);
  const std::string log = read_text(folder_ / "run/logs/rank-3.log");
  for (const std::string part :
       {"train recipe parallel.tp=1 --run here\n", "RANK=3\n", "WORLD_SIZE=4\n", "LOCAL_RANK=1\n",
        "LOCAL_WORLD_SIZE=2\n", "GROUP_RANK=1\n", "MASTER_ADDR=127.0.0.1\n", "MASTER_PORT=4711\n",
        "LONGHAUL_GENERATION=3\n", "LONGHAUL_NODE=node-0\n", "LONGHAUL_LAUNCHED=-n 4\n",
        "LONGHAUL_BOARD=/dev/shm/", "LONGHAUL_LEASE=/dev/shm/", "LONGHAUL_MEMORY_TIER=/dev/shm/",
        "OMP_WAIT_POLICY=passive\n", "PATH=", "PASSED=by name\n"})
    EXPECT_THAT(log, HasSubstr(part));
  EXPECT_THAT(log, HasSubstr(folder_.path().string() + "\n")) << "in the folder where it was typed";
  EXPECT_EQ(by_rank[3].last_words, log.substr(log.size() - std::min<size_t>(log.size(), 4096)));
  EXPECT_THAT(log, Not(HasSubstr("SOME_TOKEN"))) << "what the daemon has and ranks do not need";
  EXPECT_THAT(log, Not(HasSubstr(to_hex(keys_.of_nodes))));
  ASSERT_TRUE(until([&] { return !beats_.empty() && beats_.back().ended.size() == 2; }))
      << "told again with every beat";
}

TEST_F(NodeDaemonTest, KeysAreRenewedOnAConnectionThatStays) {
  start_daemon("sleep 60");
  start_ranks(1, {0});
  ASSERT_GT(running(1), 0);
  for (const int64_t generation : {2, 3}) {
    send(RenewKeys{generation});
    channel_->renew_sending(std::to_string(generation));
    const size_t beats = beats_.size();
    send(StillHere{});
    EXPECT_TRUE(until([&] { return beats_.size() > beats + 3; })) << "it goes on under the new keys";
  }
  EXPECT_TRUE(closings_.empty());
  channel_->renew_sending("that nobody was told of");
  send(StillHere{});
  EXPECT_TRUE(until([&] { return hellos_.size() == 2; }))
      << "what is sealed by another key ends the connection; it comes again";
}

TEST_F(NodeDaemonTest, AKilledRankIsNoticedAtOnce) {
  start_daemon("echo here; exec sleep 60");
  start_ranks(1, {0});
  const pid_t rank = running(1);
  ASSERT_GT(rank, 0);
  const Stopwatch watch;
  ::kill(rank, SIGKILL);
  ASSERT_TRUE(until([&] { return !exits_.empty(); }));
  EXPECT_LT(watch.seconds(), 5) << "milliseconds, on a machine that does nothing else";
  RecordProperty("milliseconds", static_cast<int>(watch.milliseconds()));
  EXPECT_EQ(exits_[0].status, 137);
  EXPECT_FALSE(exits_[0].stopped);
}

TEST_F(NodeDaemonTest, AGenerationIsStoppedAndTheNextBegun) {
  start_daemon("echo here; sleep 60");
  start_ranks(1, {0, 1});
  const pid_t rank = running(1);
  send(StopRanks{.generation = 1});
  ASSERT_TRUE(until([&] { return exits_.size() == 2; }));
  EXPECT_TRUE(exits_[0].stopped);
  EXPECT_EQ(exits_[0].status, 137);
  EXPECT_FALSE(process_lives(rank));
  start_ranks(2, {0});
  ASSERT_GT(running(2), 0);
  start_ranks(1, {0, 1});  // an order of the past
  send(StopRanks{.generation = 1});
  loop_.run_for(0.3);
  EXPECT_EQ(beats_.back().generation, 2);
  EXPECT_EQ(beats_.back().running.size(), 1u);
  EXPECT_THAT(read_text(folder_ / "run/logs/rank-0.log"), HasSubstr("generation 2"));
}

TEST_F(NodeDaemonTest, RanksThatAreAskedToSaveMayTakeTheirTime) {
  start_daemon(
      "trap 'sleep 0.3; exit 74' TERM; [ $RANK = 1 ] && trap '' TERM; echo here; while :; do sleep 0.05; "
      "done");
  start_ranks(1, {0, 1});
  ASSERT_GT(running(1), 0);
  const auto says_here = [&](int rank) {
    const fs::path log = folder_ / fmt::format("run/logs/rank-{}.log", rank);
    return fs::exists(log) && read_text(log).find("here") != std::string::npos;
  };
  ASSERT_TRUE(until([&] { return says_here(0) && says_here(1); }));
  send(StopRanks{.generation = 1, .grace_s = 3, .save = true});
  ASSERT_TRUE(until([&] { return exits_.size() == 2; }));
  EXPECT_EQ(exits_[0].status, 74);
  EXPECT_EQ(exits_[1].status, 137) << "which heard nothing, after the grace";
}

TEST_F(NodeDaemonTest, RanksGoOnWhileTheDriverIsAway) {
  start_daemon("sleep 60");
  start_ranks(5, {0});
  const pid_t rank = running(5);
  ASSERT_GT(rank, 0);
  go_away();
  loop_.run_for(1);
  EXPECT_TRUE(process_lives(rank));
  hellos_.clear();
  listen();  // at another port: the file tells
  ASSERT_TRUE(until([&] { return !hellos_.empty(); }));
  EXPECT_EQ(hellos_[0].generation, 5);
  ASSERT_EQ(hellos_[0].running.size(), 1u);
  EXPECT_EQ(hellos_[0].running[0].pid, rank);
  send(Release{.reason = "done"});
  EXPECT_EQ(wait_for_daemon(), 0);
  EXPECT_FALSE(process_lives(rank));
}

TEST_F(NodeDaemonTest, ADriverOfThePastIsNotObeyed) {
  start_daemon("sleep 60");
  start_ranks(5, {0});
  const pid_t rank = running(5);
  go_away();
  generation_ = 3;
  closings_.clear();
  hellos_.clear();
  listen();
  ASSERT_TRUE(until([&] { return !closings_.empty(); }));
  ASSERT_TRUE(closings_[0].refused);
  EXPECT_EQ(closings_[0].refused->code, ExitCode::kFenced);
  EXPECT_TRUE(hellos_.empty());
  EXPECT_TRUE(process_lives(rank));
}

TEST_F(NodeDaemonTest, WithoutADriverItEndsItsRanksInTheEnd) {
  start_daemon("sleep 60", [](NodeOptions& options) { options.patience_s = 0.5; });
  start_ranks(1, {0});
  const pid_t rank = running(1);
  go_away();
  EXPECT_EQ(wait_for_daemon(), 69);
  EXPECT_FALSE(process_lives(rank));
}

// Ranks that stand have lost their peers: nobody else will tell them to end. The daemon looks on for its
// driver.
TEST_F(NodeDaemonTest, RanksThatStandWithoutADriverEndWithTheirLease) {
  lease_s_ = 2;
  start_daemon("sleep 60");
  start_ranks(1, {0});
  const pid_t rank = running(1);
  ASSERT_GT(rank, 0);
  EXPECT_FALSE(until([&] { return !process_lives(rank); }, 2.5)) << "not while the driver is there";
  go_away();
  const Stopwatch watch;
  EXPECT_TRUE(until([&] { return !process_lives(rank); }));
  EXPECT_GT(watch.seconds(), 1) << "the lease, but for what had passed of it";
  listen();
  EXPECT_TRUE(until([&] { return hellos_.size() == 2; }));
  EXPECT_TRUE(hellos_.back().running.empty());
}

TEST_F(NodeDaemonTest, WithoutItsRunItEnds) {
  start_daemon("sleep 60");
  start_ranks(1, {0});
  const pid_t rank = running(1);
  go_away();
  fs::remove_all(folder_ / "control");
  EXPECT_EQ(wait_for_daemon(), 0);
  EXPECT_FALSE(process_lives(rank));
}

TEST_F(NodeDaemonTest, RanksDoNotOutliveTheirDaemon) {
  start_daemon("sleep 60");
  start_ranks(1, {0});
  const pid_t rank = running(1);
  ASSERT_GT(rank, 0);
  EXPECT_TRUE(node_lives(run_, "node-0"));
  ::kill(daemon_, SIGKILL);
  EXPECT_EQ(wait_for_daemon(), 137);
  EXPECT_TRUE(until([&] { return !process_lives(rank); }));
  EXPECT_FALSE(node_lives(run_, "node-0"));
}

TEST_F(NodeDaemonTest, WrongSecretsSecondsOfANameAndUnreadableAddresses) {
  read_or_make_secret(folder_ / "other");
  start_daemon("sleep 60", [&](NodeOptions& options) { options.secret = folder_ / "other"; });
  EXPECT_EQ(wait_for_daemon(), 64);
  EXPECT_TRUE(hellos_.empty());

  start_daemon("sleep 60");
  ASSERT_TRUE(until([&] { return !hellos_.empty(); }));
  const pid_t first = daemon_;
  start_daemon("sleep 60");
  EXPECT_EQ(wait_for_daemon(), 64) << "a daemon of that name is there";
  daemon_ = first;
  EXPECT_TRUE(process_lives(first));
  ::kill(first, SIGKILL);
  wait_for_daemon();

  start_daemon("sleep 60", [](NodeOptions& options) { options.driver = "nowhere"; });
  EXPECT_EQ(wait_for_daemon(), 64);
}

// A rank that cannot be started has ended: with a code and a reason.
TEST_F(NodeDaemonTest, ALogThatCannotBeWritten) {
  start_daemon("sleep 60");
  std::ofstream(folder_ / "run") << "a file where the folder should be";
  start_ranks(1, {0});
  ASSERT_TRUE(until([&] { return !exits_.empty(); }));
  EXPECT_EQ(exits_[0].status, 73);
  EXPECT_THAT(exits_[0].error.text, HasSubstr("run"));
}

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

class NodeSamples : public NodeDaemonTest {};

// The ring of the node: while ranks run a row at each full second, the end when they have ended, and on from
// there by the next daemon.
TEST_F(NodeSamples, SamplesOfTheMachineWhileRanksRun) {
  const fs::path ring = folder_ / "run/samples/node-0.ring";
  const auto rows = [&] {
    return fs::exists(ring) ? detect::read_ring(ring).rows : std::vector<detect::RingRow>();
  };
  start_daemon("echo here; exec sleep 60");
  ASSERT_TRUE(until([&] { return !hellos_.empty(); }));
  loop_.run_for(0.5);
  EXPECT_FALSE(fs::exists(ring)) << "an idle machine is no peer of those that work";
  start_ranks(1, {0});
  ASSERT_TRUE(until([&] { return rows().size() >= 3; }));
  const size_t cpu = detect::metric_named("cpu_usage", ""), memory = detect::metric_named("memory_usage", ""),
               gpu = detect::metric_named("gpu_duty_cycle", "");
  const std::vector<detect::RingRow> measured = rows();
  EXPECT_TRUE(std::isnan(measured[0].values[cpu])) << "the first look has no second before it";
  int on_time = 0;  // at the same moment on all machines; a busy one is late now and then
  for (size_t i = 1; i < measured.size(); ++i) {
    EXPECT_GT(measured[i].time_s - measured[i - 1].time_s, 0.1);
    on_time += std::abs(measured[i].time_s - std::round(measured[i].time_s)) < 0.4;
    EXPECT_GE(measured[i].values[cpu], 0);
    EXPECT_LE(measured[i].values[cpu], 100);
    EXPECT_GT(measured[i].values[memory], 0);
    EXPECT_TRUE(std::isnan(measured[i].values[gpu]));
  }
  EXPECT_GT(on_time, 0);
  EXPECT_EQ(detect::read_ring(ring).owner.host, machine().host);
  send(StopRanks{.generation = 1});
  ASSERT_TRUE(until([&] { return rows().back().ended; }));
  const auto open_files = [&] {
    int64_t open = 0;
    for (const auto& file : fs::directory_iterator(fmt::format("/proc/{}/fd", daemon_))) {
      std::error_code gone;
      open += fs::read_symlink(file.path(), gone) == ring;
    }
    return open;
  };
  EXPECT_TRUE(until([&] { return open_files() == 0; })) << "its file is closed";
  const size_t ended = rows().size();
  start_ranks(2, {0});
  ASSERT_TRUE(until([&] { return rows().size() >= ended + 1; }));
  EXPECT_EQ(open_files(), 1);
  ::kill(daemon_, SIGKILL);
  wait_for_daemon();
  EXPECT_FALSE(rows().back().ended) << "who dies says nothing";
  const size_t before = rows().size();
  hellos_.clear();
  start_daemon("echo here; exec sleep 60");
  start_ranks(3, {0});
  ASSERT_TRUE(until([&] { return rows().size() > before; })) << "the next one goes on in the same ring";
  send(Release{.reason = "done"});
  EXPECT_EQ(wait_for_daemon(), 0);
  EXPECT_TRUE(rows().back().ended);
}

TEST_F(NodeSamples, SamplesOfRanksWhereNodesShareAMachine) {
  const fs::path ring = folder_ / "run/samples/node-0.ring";
  start_daemon("while :; do :; done", [](NodeOptions& options) { options.shares_machine = true; });
  start_ranks(1, {0});
  ASSERT_TRUE(until([&] { return fs::exists(ring) && detect::read_ring(ring).rows.size() >= 3; }));
  const detect::SampleRing read = detect::read_ring(ring);
  EXPECT_TRUE(read.owner.ranks_alone);
  const detect::SampleValues& last = read.rows.back().values;
  EXPECT_GT(last[detect::metric_named("cpu_usage", "")], 0) << "it does nothing else";
  EXPECT_TRUE(std::isnan(last[detect::metric_named("disk_usage", "")])) << "that is the machine's";
}

// Training does not end where samples cannot be written.
TEST_F(NodeSamples, RanksRunWhereNoSamplesCanBeKept) {
  start_daemon("echo here; exec sleep 60");
  make_folders(folder_ / "run");
  std::ofstream(folder_ / "run/samples") << "a file where the folder should be";
  start_ranks(1, {0});
  ASSERT_GT(running(1), 0);
  loop_.run_for(2.5);
  EXPECT_TRUE(exits_.empty());
  send(Release{.reason = "done"});
  EXPECT_EQ(wait_for_daemon(), 0);
}

}  // namespace
}  // namespace longhaul::control
