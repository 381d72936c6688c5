// The node daemon and its ranks: what they are started with, how soon their ends are told, what becomes of
// them when the driver goes, comes back, is of the past, or never comes.
#include "control/node/node_daemon.h"

#include "control/node/node_daemon_fixture.h"

namespace longhaul::control {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

bool process_lives(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string number, name, state;
  return static_cast<bool>(file >> number >> name >> state) && state != "Z";
}

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

}  // namespace
}  // namespace longhaul::control
