// Whom DriverCore hears: its own ranks after it comes back, no strangers, no old generation; people who
// evict, drain or ask for its status.
#include "control/driver/driver_bench.h"

#include <gmock/gmock.h>

namespace longhaul::control {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class DriverRequests : public Driver {};

TEST_F(DriverRequests, ADriverThatComesBackFindsItsRanks) {
  start();
  Bench again(2);
  again.now_s = bench->now_s + 5;
  again.begin(bench->journal);
  EXPECT_EQ(again.core->state(), State::kTrain);
  for (const char* node : {"node-0", "node-1"}) {
    NodeHello hello = again.hello(node);
    hello.generation = 1;
    for (const int64_t rank : bench->running[node]) {
      RankBeat beat{.rank = rank, .generation = 1, .step = 14, .resumed_step = 0};
      beat.phase = "forward";
      hello.running.push_back(beat);
    }
    again.running[node] = bench->running[node];
    again.send(FromNode{node, hello});
  }
  again.train(14, 20);
  EXPECT_TRUE(again.starts.empty());
  EXPECT_TRUE(again.stops.empty());
  EXPECT_EQ(again.core->generation(), 1);
  EXPECT_TRUE(again.incidents.empty());
  for (int64_t rank = 0; rank < 4; ++rank) again.ends(rank, 0);
  ASSERT_TRUE(again.finish);
  EXPECT_EQ(again.finish->code, ExitCode::kDone);
}

TEST_F(DriverRequests, RanksThatEndedWhileTheDriverWasAwayAreStartedAgain) {
  start(1);
  Bench again(1);
  again.now_s = bench->now_s + 5;
  again.begin(bench->journal);
  NodeHello hello = again.hello("node-0");
  hello.generation = 1;
  hello.ended = {RankExited{.rank = 0, .generation = 1, .status = 137},
                 RankExited{.rank = 1, .generation = 1, .status = 69}};
  again.send(FromNode{"node-0", hello});
  again.wait(1.5);
  EXPECT_EQ(again.core->generation(), 2);
  EXPECT_EQ(ranks_text(again.running), "node-0:0,1 ");
}

TEST_F(DriverRequests, StrangersAreRefused) {
  bench.emplace(1);
  bench->begin();
  NodeHello other = bench->hello("node-0");
  other.version = "older";
  bench->send(FromNode{"node-0", other});
  EXPECT_THAT(bench->refusals.back(), HasSubstr("version older"));
  other = bench->hello("node-0");
  other.run = "another";
  bench->send(FromNode{"node-0", other});
  EXPECT_THAT(bench->refusals.back(), HasSubstr("another"));
  bench->join("node-0");
  EXPECT_EQ(bench->refusals.size(), 2U);
  other = bench->hello("node-0");
  other.host = "elsewhere";
  bench->send(FromNode{"node-0", other});
  EXPECT_THAT(bench->refusals.back(), HasSubstr("connected already"));
}

// What a partitioned daemon says of an old generation has no effect.
TEST_F(DriverRequests, AnOldGenerationIsNotHeard) {
  start(1);
  bench->send(Committed{10});
  bench->ends(0, 137);
  bench->wait(1.3);
  ASSERT_EQ(bench->core->generation(), 2);
  bench->train(10, 12);
  bench->send(FromNode{"node-0", RankExited{.rank = 1, .generation = 1, .status = 139}});
  EXPECT_EQ(bench->core->state(), State::kTrain);
  NodeBeat old{.generation = 1, .running = {RankBeat{.rank = 1, .generation = 1, .step = 99}}, .ended = {}};
  bench->send(FromNode{"node-0", old});
  EXPECT_EQ(bench->core->status(bench->now_s)["step"], 12);
}

TEST_F(DriverRequests, APersonEvictsANode) {
  start(2, 1);
  bench->send(Evict{.target = "7"});
  EXPECT_FALSE(bench->replies.back().good);
  bench->send(Evict{.target = "node-9"});
  EXPECT_FALSE(bench->replies.back().good);
  bench->send(Evict{.target = "2", .reason = "noisy"});
  EXPECT_TRUE(bench->replies.back().good);
  EXPECT_TRUE(bench->stops.back().second.save) << "nothing is lost by it";
  bench->wait(0.3);
  EXPECT_EQ(ranks_text(bench->running), "node-0:0,1 node-2:2,3 ");
  EXPECT_EQ(bench->core->ledger().nodes.at("node-1").state, "evicted");
  bench->train(10, 12);
  ASSERT_EQ(bench->incidents.size(), 1U);
  EXPECT_EQ(bench->incidents[0].fault, "operator");
  EXPECT_EQ(bench->core->ledger().restarts, 0);
}

TEST_F(DriverRequests, TheLastNodeCannotBeEvicted) {
  start(1);
  bench->send(Evict{.target = "node-0"});
  EXPECT_FALSE(bench->replies.back().good);
  EXPECT_EQ(bench->core->state(), State::kTrain);
}

TEST_F(DriverRequests, DrainSavesAndEndsWith74) {
  start();
  bench->send(Drain{"Ctrl-C"});
  EXPECT_TRUE(bench->stops.back().second.save);
  ASSERT_TRUE(bench->finish);
  EXPECT_EQ(bench->finish->code, ExitCode::kPreemptedSaved);
}

TEST_F(DriverRequests, StatusHasTheFieldsThatWereAgreed) {
  start();
  const nlohmann::ordered_json status = bench->core->status(bench->now_s);
  for (const char* key : {"run", "recipe", "state", "generation", "step", "steps", "started_wall_time",
                          "restarts", "productive_seconds", "lost_seconds", "effective_ratio",
                          "effective_ratio_hour", "mesh", "nodes", "ranks", "incidents"}) {
    EXPECT_TRUE(status.contains(key)) << key;
  }
  EXPECT_EQ(status["state"], "TRAIN");
  EXPECT_EQ(status["step"], 10);
  for (const char* key : {"rank", "node", "pid", "state", "generation", "step", "micro_step", "phase",
                          "phase_age_s", "beat_age_s", "progress_age_s", "collective", "loss",
                          "gradient_norm", "tokens", "resident_bytes", "step_seconds", "phase_seconds"}) {
    EXPECT_TRUE(status["ranks"][0].contains(key)) << key;
  }
  EXPECT_EQ(status["ranks"].size(), 4U);
  EXPECT_EQ(status["nodes"].size(), 2U);
}

TEST_F(DriverRequests, ItsJournalGivesItsLedger) {
  start(2, 1);
  bench->ends(0, 139, "x");
  bench->wait(2);
  bench->train(9, 12);
  bench->send(FromNode{"node-1", HealthReport{.kind = "slow", .text = "slow"}});
  bench->send(Committed{12});
  bench->wait(1);
  Ledger again;
  for (const JournalEntry& entry : journal_from_text(
                                       [&] {
                                         std::string text;
                                         for (const JournalEntry& one : bench->journal) text += to_line(one);
                                         return text;
                                       }(),
                                       "j")
                                       .entries) {
    again.apply(entry, bench->policy);
  }
  EXPECT_TRUE(again == bench->core->ledger());
}

}  // namespace
}  // namespace longhaul::control
