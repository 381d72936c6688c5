// What DriverCore makes of daemons that are there again before it has given them up, of its own absences, and
// of a journal that is lost.
#include <gmock/gmock.h>

#include "control/driver/driver_bench.h"

namespace longhaul::control {
namespace {

using ::testing::HasSubstr;

class DriverComesBack : public Driver {
 protected:
  std::string state_of(const std::string& node) const {
    const auto known = bench->core->ledger().nodes.find(node);
    return known == bench->core->ledger().nodes.end() ? "" : known->second.state;
  }
  NodeHello hello(const std::string& node, int64_t pid) {
    NodeHello hello = bench->hello(node);
    hello.pid = pid;
    return hello;
  }
  // As a daemon does whose ranks went on.
  NodeHello hello_with_ranks(const std::string& node, int64_t generation, const std::vector<int64_t>& ranks,
                             int64_t step) {
    NodeHello hello = bench->hello(node);
    hello.generation = generation;
    for (const int64_t rank : ranks) {
      RankBeat beat{
          .rank = rank, .generation = generation, .pid = 100 + rank, .step = step, .resumed_step = 0};
      beat.phase = "forward";
      hello.running.push_back(beat);
    }
    return hello;
  }
  void trains_on_both_nodes() {
    bench->wait(2);
    ASSERT_EQ(ranks_text(bench->running), "node-0:0,1 node-1:2,3 ");
    EXPECT_EQ(bench->core->generation(), 2);
    bench->train(10, 12);
    EXPECT_EQ(bench->core->state(), State::kTrain);
    EXPECT_EQ(state_of("node-0"), "active");
    EXPECT_EQ(state_of("node-1"), "active");
  }
};

TEST_F(DriverComesBack, ADaemonThatItsSupervisorHasStartedAgainIsUsedAtOnce) {
  start();
  bench->running["node-1"].clear();
  bench->send(FromNode{"node-1", hello("node-1", 8)});  // nobody had noticed that the one before died
  EXPECT_EQ(bench->core->state(), State::kSuspect);
  trains_on_both_nodes();
  EXPECT_TRUE(bench->started_nodes.empty()) << "there is nothing to be started";
  ASSERT_EQ(bench->incidents.size(), 1U);
  EXPECT_EQ(bench->incidents[0].fault, "node_daemon");
  EXPECT_EQ(bench->incidents[0].action, "restart: its daemon has come back");
}

TEST_F(DriverComesBack, ADaemonThatIsBackWithinTheLastCallIsUsedAtOnce) {
  start();
  bench->running["node-1"].clear();
  bench->send(NodeDied{.node = "node-1", .reachable = true, .text = "its daemon ended with 137"});
  bench->wait(0.5);
  bench->send(FromNode{"node-1", hello("node-1", 8)});
  trains_on_both_nodes();
}

// What was shown: the node stayed lost for ever, though it was connected.
TEST_F(DriverComesBack, ANodeThatIsBackWithinTheSecondOfTheVerdictIsTakenBack) {
  start();
  bench->now_s += 0.5;
  const std::vector<int64_t> ranks = bench->running["node-1"];
  const double begin_s = bench->now_s;
  auto running = std::exchange(bench->running, {{"node-0", {0, 1}}});
  while (bench->core->state() == State::kTrain && bench->now_s < begin_s + 30) {
    bench->beats(10, 0);
    bench->wait(0.5);
  }
  ASSERT_EQ(bench->core->state(), State::kSuspect) << "nothing was heard of node-1 for 15 s";
  EXPECT_EQ(bench->closed, std::vector<std::string>{"node-1"})
      << "a connection that lives on would bring no other hello";
  bench->running = std::move(running);
  bench->running["node-0"].clear();  // they were ended
  bench->send(FromNode{"node-1", hello_with_ranks("node-1", 1, ranks, 10)});
  trains_on_both_nodes();
  EXPECT_THAT(bench->incidents.at(0).action, HasSubstr("it is there again"));
}

// SIGSTOP, a disk that does not answer: the beats that came meanwhile are still to be read.
TEST_F(DriverComesBack, ADriverThatWasHeldUpTakesNobodyForLost) {
  start();
  bench->now_s += 100;
  bench->send(FromNode{"node-0", NodeBeat{.generation = 1, .running = {}, .ended = {}}});
  EXPECT_EQ(bench->core->state(), State::kTrain);
  bench->train(10, 12);
  EXPECT_EQ(bench->core->state(), State::kTrain);
  EXPECT_EQ(bench->core->generation(), 1);
  EXPECT_TRUE(bench->closed.empty());
  const double begin_s = bench->now_s;  // but who is silent from then on is lost as ever
  while (bench->core->state() == State::kTrain && bench->now_s < begin_s + 30) bench->wait(0.5);
  EXPECT_NEAR(bench->now_s - begin_s, 15, 1.5);
}

TEST_F(DriverComesBack, ADriverThatWasHeldUpEvictsNobodyWhoseRanksHaveEnded) {
  start();
  bench->stopped_ranks_end = false;
  bench->ends(0, 139);
  bench->wait(2);
  ASSERT_EQ(bench->core->state(), State::kRepair);
  bench->now_s += 100;  // longer than ranks that were ended may take
  for (const auto& [node, rank] : {std::pair{"node-0", 1}, std::pair{"node-1", 2}, std::pair{"node-1", 3}})
    bench->send(FromNode{node, RankExited{.rank = rank, .generation = 1, .status = 137, .stopped = true}});
  bench->running.clear();
  bench->wait(2);
  EXPECT_EQ(bench->core->generation(), 2);
  EXPECT_EQ(state_of("node-0"), "active");
  EXPECT_EQ(state_of("node-1"), "active");
}

TEST_F(DriverComesBack, AFaultBehindTheLastCheckpointIsNoFailure) {
  start();
  bench->train(10, 100);
  bench->send(Committed{100});
  bench->ends(0, 73, "cannot write the result");
  bench->wait(2);
  ASSERT_TRUE(bench->finish);
  EXPECT_EQ(bench->finish->code, ExitCode::kDone);
  EXPECT_EQ(bench->core->state(), State::kDone);
  EXPECT_THAT(bench->finish->text, HasSubstr("all 100 steps are done and saved; behind them: rank 0"));
  EXPECT_EQ(bench->starts.size(), 2U) << "one start on each node";
}

TEST_F(DriverComesBack, WithoutTheLastCheckpointItIsOne) {
  start();
  bench->train(10, 100);
  bench->send(Committed{99});
  bench->ends(0, 73, "cannot write the result");
  bench->wait(2);
  EXPECT_EQ(bench->core->generation(), 2);
}

// What is wrong with the command that was typed is said, however far the run has come.
TEST_F(DriverComesBack, ARefusedStartOfACompleteRunSaysWhy) {
  bench.emplace(2);
  bench->begin();
  bench->join_all();
  bench->send(Committed{100});
  bench->ends(0, 64, "another recipe");
  bench->wait(2);
  ASSERT_TRUE(bench->finish);
  EXPECT_EQ(bench->finish->code, ExitCode::kUsage);
}

TEST_F(DriverComesBack, WithoutAJournalItGoesOnBehindEveryGenerationThatAnybodyKnows) {
  bench.emplace(2);
  bench->plan.begun = 5;  // as status.json says
  bench->plan.skipped = {{8, 9}};
  bench->begin();
  bench->stopped_ranks_end = false;
  bench->send(FromNode{"node-0", hello_with_ranks("node-0", 7, {0, 1}, 30)});
  bench->send(FromNode{"node-1", hello("node-1", 8)});
  ASSERT_EQ(bench->stops.size(), 1U);
  EXPECT_EQ(bench->stops[0].first, "node-0");
  EXPECT_EQ(bench->stops[0].second.generation, 7);
  EXPECT_TRUE(bench->starts.empty()) << "first the ranks of before are gone";
  for (const int64_t rank : {0, 1})
    bench->send(
        FromNode{"node-0", RankExited{.rank = rank, .generation = 7, .status = 137, .stopped = true}});
  bench->wait(1);
  EXPECT_EQ(bench->core->generation(), 8);
  ASSERT_FALSE(bench->skips.empty());
  EXPECT_EQ(bench->skips.back(), (std::vector<data::SampleRange>{{8, 9}}))
      << "what was passed over for good stays so";
  bench->train(25, 27);
  ASSERT_EQ(bench->incidents.size(), 1U)
      << "ranks that trained were ended, and nothing else tells why steps are done again";
  EXPECT_EQ(bench->incidents[0].fault, "driver_away");
  EXPECT_THAT(bench->incidents[0].evidence,
              ::testing::Contains(
                  HasSubstr("does not know generation 7: its ranks 0, 1 on node-0 are ended at step 30")));
}

TEST_F(DriverComesBack, AFirstStartWithoutAJournalKnowsWhatStatusSaid) {
  bench.emplace(2);
  bench->plan.begun = 5;
  bench->begin();
  bench->join_all();
  EXPECT_EQ(bench->core->generation(), 6) << "a node that is away may still have ranks of the fifth";
}

// The journal is lost twice, before the driver between has begun a generation.
TEST_F(DriverComesBack, StatusTellsWhatTheDriverWasToldItself) {
  bench.emplace(2);
  bench->plan.begun = 5;
  bench->begin();
  EXPECT_EQ(bench->core->status(bench->now_s).at("newest_generation"), 5);
  bench->send(FromNode{"node-0", hello_with_ranks("node-0", 7, {0, 1}, 30)});
  EXPECT_EQ(bench->core->status(bench->now_s).at("newest_generation"), 7);
}

}  // namespace
}  // namespace longhaul::control
