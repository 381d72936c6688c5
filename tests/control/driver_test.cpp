// DriverCore told one thing after the other, by hand: what it does about each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "control/driver_core.h"
#include "control/ledger.h"

namespace longhaul::control {
namespace {

using ::testing::HasSubstr;

// A driver, and daemons that do as they are told: ranks run, take steps when asked to, and end when stopped.
class Bench {
 public:
  explicit Bench(int64_t nodes = 2, int64_t spares = 0) : spares_(spares) {
    plan.run = "r";
    plan.version = "v";
    plan.nodes = nodes;
    plan.spares = spares;
    plan.steps = 100;
    for (int64_t n = nodes; n > 0; --n) plan.widths.push_back({.ranks = 2 * n, .overrides = {}, .mesh = {{"dp", 2 * n}}});
  }

  void begin(std::vector<JournalEntry> entries = {}) {
    core.emplace(plan, policy, std::move(entries));
    send(Tick{});
  }
  void join_all() {
    for (int64_t n = 0; n < plan.nodes + spares_; ++n) join(fmt::format("node-{}", n), n >= plan.nodes);
  }
  NodeHello hello(const std::string& node, bool spare = false) {
    NodeHello hello{
        .version = "v", .run = "r", .node = node, .host = "host of " + node, .boot_id = "1", .address = "address of " + node, .pid = 7};
    hello.slots = 2;
    hello.spare = spare;
    hello.free_port = 4000;
    return hello;
  }
  void join(const std::string& node, bool spare = false) { send(FromNode{node, hello(node, spare)}); }

  // Everybody has done `step` steps, of which those after `resumed` in this generation.
  void beats(int64_t step, int64_t resumed, const std::string& phase = "forward", double age_s = 0) {
    for (const auto& [node, ranks] : running) {
      NodeBeat beat{.generation = core->generation(), .free_port = 4000, .running = {}, .ended = {}};
      for (const int64_t rank : ranks) {
        RankBeat of_rank{.rank = rank,
                         .generation = core->generation(),
                         .pid = 100 + rank,
                         .progress_age_s = age_s,
                         .step = step,
                         .resumed_step = resumed};
        of_rank.phase = phase;
        beat.running.push_back(of_rank);
      }
      send(FromNode{node, beat});
    }
  }
  void train(int64_t from, int64_t to) {
    for (int64_t step = from; step <= to; ++step) {
      beats(step, from);
      wait(1);
    }
  }
  void ends(int64_t rank, int64_t status, const std::string& words = "") {
    for (auto& [node, ranks] : running) {
      if (std::erase(ranks, rank) == 0) continue;
      send(
          FromNode{node, RankExited{.rank = rank, .generation = core->generation(), .status = status, .age_s = 0.01, .last_words = words}});
      return;
    }
    FAIL() << "rank " << rank << " does not run";
  }
  // In small steps, as a shell would.
  void wait(double seconds) {
    const double end_s = now_s + seconds;
    while (now_s < end_s - 1e-9) {
      now_s = std::min(end_s, now_s + 0.1);
      send(Tick{});
    }
  }

  void send(const Input& input) {
    for (const Command& command : core->on(input, now_s)) {
      if (const auto* entry = std::get_if<WriteJournal>(&command)) journal.push_back(entry->entry);
      if (const auto* done = std::get_if<Finish>(&command)) finish = *done;
      if (const auto* reply = std::get_if<Reply>(&command)) replies.push_back(reply->answer);
      if (const auto* refuse = std::get_if<Refuse>(&command)) refusals.push_back(refuse->reason);
      if (const auto* emit = std::get_if<Emit>(&command)) {
        if (const auto* incident = std::get_if<observe::IncidentReport>(&emit->body)) incidents.push_back(*incident);
      }
      if (const auto* skip = std::get_if<WriteSkip>(&command)) skips.push_back(skip->ranges);
      if (std::holds_alternative<AnalyseHang>(command)) asked_for_analysis = true;
      if (const auto* start = std::get_if<StartNode>(&command)) started_nodes.push_back(start->node);
      if (const auto* to = std::get_if<ToNode>(&command)) obey(to->node, to->message);
    }
  }

  RunPlan plan;
  Policy policy;
  double now_s = 5000;
  std::optional<DriverCore> core;
  std::vector<JournalEntry> journal;
  std::optional<Finish> finish;
  std::vector<Answer> replies;
  std::vector<std::string> refusals, started_nodes;
  std::vector<observe::IncidentReport> incidents;
  std::vector<std::vector<data::SampleRange>> skips;
  std::map<std::string, std::vector<int64_t>> running;  // by node
  std::vector<StartRanks> starts;
  std::vector<std::pair<std::string, StopRanks>> stops;
  std::vector<std::string> released, checked, gathered;
  bool asked_for_analysis = false, stopped_ranks_end = true;

 private:
  void obey(const std::string& node, const DriverMessage& message) {
    if (const auto* start = std::get_if<StartRanks>(&message)) {
      starts.push_back(*start);
      running[node] = start->ranks;
    }
    if (const auto* stop = std::get_if<StopRanks>(&message)) {
      stops.emplace_back(node, *stop);
      if (!stopped_ranks_end) return;
      for (const int64_t rank : std::exchange(running[node], {})) {
        send(FromNode{node, RankExited{.rank = rank, .generation = core->generation(), .status = stop->save ? 74 : 137, .stopped = true}});
      }
    }
    if (std::holds_alternative<Release>(message)) released.push_back(node);
    if (std::holds_alternative<GatherEvidence>(message)) gathered.push_back(node);
    if (const auto* checks = std::get_if<RunChecks>(&message)) {
      checked.push_back(node);
      last_checks = *checks;
    }
  }
  int64_t spares_;

 public:
  RunChecks last_checks;
};

std::string ranks_text(const std::map<std::string, std::vector<int64_t>>& running) {
  std::string text;
  for (const auto& [node, ranks] : running) {
    if (!ranks.empty()) text += fmt::format("{}:{} ", node, fmt::join(ranks, ","));
  }
  return text;
}

class Driver : public ::testing::Test {
 protected:
  // A run of two nodes that has done ten steps.
  void start(int64_t nodes = 2, int64_t spares = 0) {
    bench.emplace(nodes, spares);
    bench->begin();
    bench->join_all();
    bench->train(0, 10);
    ASSERT_EQ(bench->core->state(), State::kTrain);
  }
  std::optional<Bench> bench;
};

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
  EXPECT_EQ(bench->stops[0].second.grace_s, 0);
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
  bench->send(Committed{100});
  bench->ends(0, 137);
  bench->wait(1.3);
  ASSERT_TRUE(bench->finish);
  EXPECT_EQ(bench->finish->code, ExitCode::kDoNotRestart);
  EXPECT_THAT(bench->finish->text, HasSubstr("restarts"));
}

// 5 × the longest interval, at least the floor; noticed within a second after it.
TEST_F(Driver, AHangIsNoticedAfterItsTimeOut) {
  start();
  const double begin_s = bench->now_s;
  while (bench->core->state() == State::kTrain && bench->now_s < begin_s + 100) {
    bench->beats(10, 0, "communication", bench->now_s - begin_s);
    bench->wait(1);
  }
  EXPECT_GT(bench->now_s - begin_s, 60);
  EXPECT_LE(bench->now_s - begin_s, 62);
  EXPECT_EQ(bench->core->state(), State::kSuspect);
  EXPECT_EQ(bench->gathered.size(), 2U);
  EXPECT_TRUE(bench->stops.empty()) << "hanging ranks are looked at first";
  for (const char* node : {"node-0", "node-1"}) bench->send(FromNode{node, Evidence{.generation = 1, .last = true}});
  EXPECT_TRUE(bench->asked_for_analysis);
  bench->send(HangFound{.generation = 1, .suspects = {2}, .text = "rank 2 never came to all_reduce 'loss'"});
  EXPECT_EQ(bench->stops.size(), 2U);
  bench->wait(0.5);
  bench->train(10, 12);
  ASSERT_EQ(bench->incidents.size(), 1U);
  EXPECT_EQ(bench->incidents[0].fault, "hang");
  EXPECT_EQ(bench->incidents[0].rank, 2);
  EXPECT_THAT(bench->incidents[0].action, HasSubstr("no other node")) << "without a spare it goes on in place";
}

// All wait for one that evaluates: that is no hang while it is within its own time.
TEST_F(Driver, WaitingForOneThatWorksIsNoHang) {
  start(1);
  const double begin_s = bench->now_s;
  while (bench->now_s < begin_s + 300) {
    NodeBeat beat{.generation = 1, .running = {}, .ended = {}};
    for (int64_t rank = 0; rank < 2; ++rank) {
      RankBeat of_rank{.rank = rank, .generation = 1, .progress_age_s = bench->now_s - begin_s, .step = 10, .resumed_step = 0};
      of_rank.phase = rank == 0 ? "evaluation" : "communication";
      beat.running.push_back(of_rank);
    }
    bench->send(FromNode{"node-0", beat});
    bench->wait(1);
  }
  EXPECT_EQ(bench->core->state(), State::kTrain);
}

TEST_F(Driver, AProcessWithoutAnySignIsTheSuspect) {
  start(1);
  for (int i = 0; i < 12 && bench->core->state() == State::kTrain; ++i) {
    NodeBeat beat{.generation = 1, .running = {}, .ended = {}};
    for (int64_t rank = 0; rank < 2; ++rank) {
      RankBeat of_rank{
          .rank = rank, .generation = 1, .beat_age_s = rank == 1 ? i : 0.0, .progress_age_s = 1.0 * i, .step = 10, .resumed_step = 0};
      of_rank.phase = "communication";
      beat.running.push_back(of_rank);
    }
    bench->send(FromNode{"node-0", beat});
    bench->wait(1);
  }
  EXPECT_EQ(bench->core->state(), State::kSuspect);
  bench->wait(11);  // nobody answers: evidence, analysis
  bench->wait(1);
  bench->train(10, 12);
  ASSERT_EQ(bench->incidents.size(), 1U);
  EXPECT_EQ(bench->incidents[0].rank, 1);
}

TEST_F(Driver, ADriverThatComesBackFindsItsRanks) {
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

TEST_F(Driver, RanksThatEndedWhileTheDriverWasAwayAreStartedAgain) {
  start(1);
  Bench again(1);
  again.now_s = bench->now_s + 5;
  again.begin(bench->journal);
  NodeHello hello = again.hello("node-0");
  hello.generation = 1;
  hello.ended = {RankExited{.rank = 0, .generation = 1, .status = 137}, RankExited{.rank = 1, .generation = 1, .status = 69}};
  again.send(FromNode{"node-0", hello});
  again.wait(1.5);
  EXPECT_EQ(again.core->generation(), 2);
  EXPECT_EQ(ranks_text(again.running), "node-0:0,1 ");
}

TEST_F(Driver, StrangersAreRefused) {
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
TEST_F(Driver, AnOldGenerationIsNotHeard) {
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

TEST_F(Driver, APersonEvictsANode) {
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

TEST_F(Driver, TheLastNodeCannotBeEvicted) {
  start(1);
  bench->send(Evict{.target = "node-0"});
  EXPECT_FALSE(bench->replies.back().good);
  EXPECT_EQ(bench->core->state(), State::kTrain);
}

TEST_F(Driver, DrainSavesAndEndsWith74) {
  start();
  bench->send(Drain{"Ctrl-C"});
  EXPECT_TRUE(bench->stops.back().second.save);
  ASSERT_TRUE(bench->finish);
  EXPECT_EQ(bench->finish->code, ExitCode::kPreemptedSaved);
}

TEST_F(Driver, AFailedPreflightTakesASpare) {
  bench.emplace(2, 1);
  bench->policy.preflight = true;
  bench->begin();
  bench->join_all();
  EXPECT_EQ(bench->core->state(), State::kCheck);
  ASSERT_EQ(bench->checked.size(), 2U);
  bench->wait(1);
  const int64_t id = bench->last_checks.id;
  bench->send(
      FromNode{"node-0", CheckResults{.id = id, .suite = "preflight", .checks = {{.name = "disk", .passed = false, .text = "too slow"}}}});
  bench->send(FromNode{"node-1", CheckResults{.id = id, .suite = "preflight", .checks = {{.name = "disk"}}}});
  EXPECT_EQ(bench->core->ledger().nodes.at("node-0").state, "evicted");
  for (int i = 0; i < 3 && bench->starts.empty(); ++i) {
    bench->wait(1);
    bench->send(FromNode{"node-2", CheckResults{.id = bench->last_checks.id, .suite = "preflight", .checks = {{.name = "disk"}}}});
  }
  EXPECT_EQ(ranks_text(bench->running), "node-1:0,1 node-2:2,3 ");
}

// Three nodes compute the same small step: one has other bits.
TEST_F(Driver, TheMinorityOfBitsFails) {
  bench.emplace(3);
  bench->policy.preflight = true;
  bench->begin();
  bench->join_all();
  const int64_t id = bench->last_checks.id;
  for (const auto& [node, bits] : std::map<std::string, std::string>{{"node-0", "a"}, {"node-1", "b"}, {"node-2", "a"}}) {
    bench->send(FromNode{node, CheckResults{.id = id, .suite = "preflight", .checks = {{.name = "step", .signature = bits}}}});
  }
  EXPECT_EQ(bench->core->ledger().nodes.at("node-1").state, "evicted");
  EXPECT_EQ(bench->core->ledger().nodes.at("node-0").state, "spare");
}

TEST_F(Driver, StatusHasTheFieldsThatWereAgreed) {
  start();
  const nlohmann::ordered_json status = bench->core->status(bench->now_s);
  for (const char* key : {"run", "recipe", "state", "generation", "step", "steps", "started_wall_time", "restarts", "productive_seconds",
                          "lost_seconds", "effective_ratio", "effective_ratio_hour", "mesh", "nodes", "ranks", "incidents"}) {
    EXPECT_TRUE(status.contains(key)) << key;
  }
  EXPECT_EQ(status["state"], "TRAIN");
  EXPECT_EQ(status["step"], 10);
  for (const char* key :
       {"rank", "node", "pid", "state", "generation", "step", "micro_step", "phase", "phase_age_s", "beat_age_s", "progress_age_s",
        "collective", "loss", "gradient_norm", "tokens", "resident_bytes", "step_seconds", "phase_seconds"}) {
    EXPECT_TRUE(status["ranks"][0].contains(key)) << key;
  }
  EXPECT_EQ(status["ranks"].size(), 4U);
  EXPECT_EQ(status["nodes"].size(), 2U);
}

TEST_F(Driver, ItsJournalGivesItsLedger) {
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
