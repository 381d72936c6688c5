// What DriverCore does about ranks and nodes that fail.
#include "control/driver/driver_bench.h"

#include <gmock/gmock.h>

#include <cmath>

namespace longhaul::control {
namespace {

using ::testing::HasSubstr;

TEST_F(Driver, StartsWhenAllNodesAreThere) {
  bench.emplace(2);
  bench->begin();
  bench->join("node-1");
  bench->wait(5);
  EXPECT_EQ(bench->core->state(), State::kRendezvous);
  EXPECT_TRUE(bench->starts.empty());
  bench->join("node-0");
  ASSERT_EQ(bench->starts.size(), 2U);
  EXPECT_EQ(ranks_text(bench->running), "node-0:0,1 node-1:2,3 ");
  EXPECT_EQ(bench->starts[0].master_address, "address of node-0");
  EXPECT_EQ(bench->starts[1].master_address, "address of node-0");
  EXPECT_EQ(bench->starts[1].node_rank, 1);
  EXPECT_EQ(bench->core->state(), State::kLoad);
  bench->beats(0, 0);
  EXPECT_EQ(bench->core->state(), State::kTrain);
  for (int64_t rank = 0; rank < 4; ++rank) bench->ends(rank, 0);
  ASSERT_TRUE(bench->finish);
  EXPECT_EQ(bench->finish->code, ExitCode::kDone);
  EXPECT_EQ(bench->released.size(), 2U);
}

TEST_F(Driver, ADeadRankEndsAllAtOnceAndTheyComeBackAfterTheLastCall) {
  start();
  bench->ends(3, 137);
  EXPECT_EQ(bench->core->state(), State::kSuspect);
  EXPECT_EQ(bench->stops.size(), 2U) << "at once, on every node";
  EXPECT_TRUE(bench->stops[0].second.leave) << "their state of the last whole step, in memory";
  EXPECT_EQ(bench->stops[0].second.grace_s, 1) << "of ranks that hold nothing yet";
  bench->wait(1.2);
  EXPECT_EQ(bench->core->generation(), 2);
  EXPECT_EQ(ranks_text(bench->running), "node-0:0,1 node-1:2,3 ");
  bench->train(9, 11);
  ASSERT_EQ(bench->incidents.size(), 1U);
  EXPECT_EQ(bench->incidents[0].fault, "killed");
  EXPECT_EQ(bench->incidents[0].rank, 3);
  EXPECT_EQ(bench->incidents[0].node, "node-1");
  EXPECT_EQ(bench->incidents[0].lost_steps, 1);
  EXPECT_NEAR(bench->incidents[0].detected_milliseconds, 10, 1e-6);
  EXPECT_NEAR(*bench->incidents[0].diagnosed_milliseconds, 1000, 150);
  EXPECT_NEAR(*bench->incidents[0].recovered_milliseconds, 2200, 200);
}

// The victim speaks first: the rank that lost its peer is not the cause.
TEST_F(Driver, VictimsAreDemoted) {
  start();
  bench->stopped_ranks_end = false;
  bench->ends(0, 69, "lost rank 2");
  bench->wait(0.3);
  bench->ends(2, 139, "crashed");
  bench->stopped_ranks_end = true;
  bench->wait(1);
  bench->ends(1, 69);
  bench->ends(3, 69);
  bench->wait(1);
  bench->train(10, 12);
  ASSERT_EQ(bench->incidents.size(), 1U);
  EXPECT_EQ(bench->incidents[0].fault, "unclear");
  EXPECT_EQ(bench->incidents[0].rank, 2);
}

// A rank throws an error of communication of its own; a peer that lost it is heard of first.
TEST_F(Driver, TheFirstRankToFailIsTheCauseOfACommunicationError) {
  start();
  const auto ended = [&](const std::string& node, int64_t rank, bool consequence, double age_s) {
    std::erase(bench->running[node], rank);
    RankExited exited{.rank = rank, .generation = 1, .status = 69, .step = 10};
    exited.error = {
        .code = 69, .text = fmt::format("of rank {}", rank), .consequence = consequence, .age_s = age_s};
    bench->stopped_ranks_end = false;
    bench->send(FromNode{node, exited});
  };
  ended("node-0", 0, /*consequence=*/true, 0.9);
  bench->wait(0.2);
  ended("node-1", 3, /*consequence=*/false, 0.30);  // by itself, but later
  // ended by the driver meanwhile, which had heard of the first
  {
    std::erase(bench->running["node-1"], 2);
    RankExited exited{.rank = 2, .generation = 1, .status = 137, .stopped = true, .step = 10};
    exited.error = {.code = 69, .text = "of rank 2", .consequence = false, .age_s = 0.35};
    bench->send(FromNode{"node-1", exited});
  }
  ended("node-0", 1, /*consequence=*/true, 0.2);
  bench->stopped_ranks_end = true;
  bench->wait(2);
  bench->train(10, 12);
  ASSERT_EQ(bench->incidents.size(), 1U);
  EXPECT_EQ(bench->incidents[0].fault, "communication");
  EXPECT_EQ(bench->incidents[0].rank, 2);
  EXPECT_EQ(bench->incidents[0].node, "node-1");
}

TEST_F(Driver, HostsThatFailedAgainAndAgainAreUsedLast) {
  bench.emplace(2, 1);
  bench->plan.used_last = {"host of node-0"};
  bench->begin();
  bench->join("node-2", true);
  bench->join("node-0");
  bench->join("node-1");
  EXPECT_EQ(ranks_text(bench->running), "node-1:0,1 node-2:2,3 ") << "a spare is taken before it";
  bench->train(0, 10);
  bench->ends(2, 71);
  bench->wait(2);
  EXPECT_EQ(ranks_text(bench->running), "node-0:2,3 node-1:0,1 ") << "and it before nothing";
}

// A machine that was evicted and started anew, or a pod that comes again elsewhere: not without checks.
TEST_F(Driver, AnEvictedNodeComesAgainWithAnotherBootAndIsChecked) {
  start(2);
  bench->ends(2, 71);
  bench->wait(2);
  ASSERT_EQ(bench->core->ledger().nodes.at("node-1").state, "evicted");
  bench->train(10, 11);
  bench->join("node-1");
  EXPECT_EQ(bench->refusals.size(), 1U) << "the same machine, as it was";
  NodeHello anew = bench->hello("node-1");
  anew.boot_id = "2";
  bench->send(FromNode{"node-1", anew});
  EXPECT_EQ(bench->refusals.size(), 1U);
  bench->send(Committed{.step = 11});
  bench->train(11, 13);  // there is room for four again
  EXPECT_EQ(bench->checked, (std::vector<std::string>{"node-1"}));
  bench->send(FromNode{
      "node-1",
      CheckResults{.id = bench->last_checks.id, .suite = "preflight", .checks = {{.name = "disk"}}}});
  EXPECT_EQ(ranks_text(bench->running), "node-0:0,1 node-1:2,3 ");
}

TEST_F(Driver, ASpareTakesTheRanksOfABrokenNode) {
  start(2, 1);
  EXPECT_EQ(bench->core->ledger().nodes.at("node-2").state, "spare");
  bench->ends(0, 71, "device fault");
  bench->wait(2);
  EXPECT_EQ(ranks_text(bench->running), "node-1:2,3 node-2:0,1 ");
  EXPECT_EQ(bench->core->ledger().nodes.at("node-0").state, "evicted");
  EXPECT_THAT(bench->released, ::testing::Contains("node-0"));
  bench->send(FromNode{"node-0", bench->hello("node-0")});
  EXPECT_THAT(bench->refusals.back(), HasSubstr("evicted")) << "it may not come back";
}

TEST_F(Driver, WithoutASpareTheRunShrinksAndGrowsAgain) {
  start();
  bench->send(ConnectionLost{"node-1"});
  bench->running["node-1"].clear();
  for (int i = 0; i < 16; ++i) {
    bench->beats(10, 0, "communication", i);
    bench->wait(1);
  }
  EXPECT_EQ(ranks_text(bench->running), "node-0:0,1 ");
  EXPECT_EQ(bench->core->ledger().world, 2);
  EXPECT_EQ(bench->core->ledger().nodes.at("node-1").state, "lost");
  bench->train(9, 11);
  ASSERT_EQ(bench->incidents.size(), 1U);
  EXPECT_EQ(bench->incidents[0].fault, "machine_unreachable");
  bench->join("node-1");
  bench->train(12, 13);
  EXPECT_EQ(bench->core->ledger().world, 2) << "not before a checkpoint";
  bench->send(Committed{13});
  EXPECT_TRUE(bench->stops.back().second.save);
  bench->wait(0.3);
  EXPECT_EQ(bench->core->ledger().world, 4);
  EXPECT_EQ(ranks_text(bench->running), "node-0:0,1 node-1:2,3 ");
  EXPECT_EQ(bench->core->ledger().restarts, 1) << "growing costs nothing of the budget";
}

TEST_F(Driver, ADaemonThatDiedIsStartedAgain) {
  start();
  bench->running["node-1"].clear();
  bench->send(NodeDied{.node = "node-1", .reachable = true, .text = "daemon killed"});
  bench->wait(1.5);
  EXPECT_THAT(bench->started_nodes, ::testing::ElementsAre("node-1"));
  EXPECT_EQ(bench->starts.size(), 2U) << "it is waited for";
  NodeHello again = bench->hello("node-1");
  again.pid = 8;
  bench->send(FromNode{"node-1", again});
  EXPECT_EQ(ranks_text(bench->running), "node-0:0,1 node-1:2,3 ");
  EXPECT_EQ(bench->core->generation(), 2);
}

TEST_F(Driver, AnEvictedDaemonIsNotStartedAgain) {
  start(3);
  bench->ends(0, 71);
  bench->wait(2);
  ASSERT_EQ(bench->core->ledger().nodes.at("node-0").state, "evicted");
  bench->send(NodeDied{.node = "node-0", .text = "its daemon ended with 0"});
  bench->wait(30);
  EXPECT_TRUE(bench->started_nodes.empty());
}

TEST_F(Driver, WithoutRestartsTheFirstFaultEndsTheRunWithItsCode) {
  bench.emplace(1);
  bench->policy.restarts = 0;
  bench->begin();
  bench->join_all();
  bench->train(0, 3);
  bench->ends(1, 139, "crashed");
  bench->wait(1.5);
  ASSERT_TRUE(bench->finish);
  EXPECT_EQ(static_cast<int>(bench->finish->code), 139);
  EXPECT_EQ(bench->finish->rank, 1);
}

TEST_F(Driver, ConfigurationErrorsEndTheRunAndAllRanksMaySpeak) {
  bench.emplace(1);
  bench->begin();
  bench->join_all();
  bench->ends(1, 64, "unknown key");
  EXPECT_TRUE(bench->stops.empty()) << "the others say it too";
  bench->wait(1.2);
  ASSERT_TRUE(bench->finish);
  EXPECT_EQ(bench->finish->code, ExitCode::kUsage);
  EXPECT_THAT(bench->finish->text, HasSubstr("unknown key"));
}

TEST_F(Driver, FaultsWithoutProgressEndTheRun) {
  start(1);
  for (int i = 0; i < 2; ++i) {
    bench->ends(0, 137);
    bench->wait(3);
    bench->train(0, 3 + i);
  }
  EXPECT_FALSE(bench->finish);
  bench->ends(0, 137);
  bench->wait(1.2);
  ASSERT_TRUE(bench->finish);
  EXPECT_EQ(bench->finish->code, ExitCode::kDoNotRestart);
  EXPECT_THAT(bench->finish->text, HasSubstr("without a newer checkpoint"));
}

// More faults than any other kind may have without a newer checkpoint. Five: a node that is silent for the
// next pause would count as lost.
TEST_F(Driver, AFullDiskIsWaitedFor) {
  start(1);
  for (int i = 0; i < 5; ++i) {
    bench->ends(0, 73);
    bench->wait(1.3 + (i == 0 ? 0 : std::exp2(i - 1)));
    ASSERT_FALSE(bench->finish) << i;
    ASSERT_EQ(bench->core->generation(), i + 2) << "started again after a pause that has doubled";
  }
}

TEST_F(Driver, ACheckpointIsProgress) {
  start(1);
  for (int64_t i = 1; i <= 8; ++i) {
    bench->send(Committed{10 * i});
    bench->ends(0, 137);
    bench->wait(1.3);
    bench->train(10 * i, 10 * i + 3);
  }
  EXPECT_FALSE(bench->finish);
  EXPECT_EQ(bench->core->generation(), 9);
}

TEST_F(Driver, TheBudgetEnds) {
  bench.emplace(1);
  bench->policy.restarts = 3;
  bench->begin();
  bench->join_all();
  bench->train(0, 3);
  for (int64_t i = 1; i <= 3; ++i) {
    bench->send(Committed{10 * i});
    bench->ends(0, 137);
    bench->wait(1.3);
    bench->train(10 * i, 10 * i + 2);
  }
  bench->send(Committed{99});
  bench->ends(0, 137);
  bench->wait(1.3);
  ASSERT_TRUE(bench->finish);
  EXPECT_EQ(bench->finish->code, ExitCode::kDoNotRestart);
  EXPECT_THAT(bench->finish->text, HasSubstr("restarts"));
}

// 0, 1, 2, 4 s, and at most so long.
TEST_F(Driver, PausesDoubleWithEachFaultWithoutProgress) {
  bench.emplace(1);
  bench->policy.cycles_without_progress = 100;
  bench->policy.stop_for_software = false;
  bench->policy.back_off_most_s = 3;
  bench->begin();
  bench->join_all();
  for (const double pause_s : {0.0, 1.0, 2.0, 3.0, 3.0}) {
    const int64_t before = bench->core->generation();
    bench->ends(0, 137);
    const double began_s = bench->now_s;
    while (bench->core->generation() == before && bench->now_s < began_s + 60) bench->wait(0.1);
    EXPECT_NEAR(bench->now_s - began_s, bench->policy.last_call_s + pause_s, 0.35);
  }
}

// One spare for two nodes whose ranks hang at once: the second goes on where it is.
TEST_F(Driver, ASpareReplacesOneNodeAlone) {
  start(2, 1);
  bench->stopped_ranks_end = false;
  bench->ends(0, 72);
  bench->ends(2, 72);
  bench->stopped_ranks_end = true;
  for (const auto& [node, ranks] : std::exchange(bench->running, {})) {
    for (const int64_t rank : ranks)
      bench->send(FromNode{node, RankExited{.rank = rank, .generation = 1, .status = 137, .stopped = true}});
  }
  bench->wait(3);
  EXPECT_EQ(bench->core->generation(), 2);
  int64_t evicted = 0;
  for (const auto& [name, node] : bench->core->ledger().nodes) evicted += node.state == "evicted" ? 1 : 0;
  EXPECT_EQ(evicted, 1);
  EXPECT_EQ(bench->starts.back().world, 4) << "the whole width";
}

// The same device says again and again what it has; another one of its node is another incident.
TEST_F(Driver, ReportsOfTwoDevicesAreTwoIncidents) {
  start(1);
  const auto says = [&](const std::string& device) {
    bench->send(FromNode{"node-0", HealthReport{.kind = "storage", .device = device, .text = "read only"}});
  };
  says("/scratch");
  says("/scratch");
  EXPECT_EQ(bench->incidents.size(), 1U);
  says("/data");
  EXPECT_EQ(bench->incidents.size(), 2U);
  bench->train(10, 72);
  says("/scratch");
  EXPECT_EQ(bench->incidents.size(), 3U) << "a minute later it is news";
}

}  // namespace
}  // namespace longhaul::control
