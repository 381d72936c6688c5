// DriverCore and checks of machines: before ranks, of suspects, of bits, links and heat.
#include "control/driver/driver_bench.h"

#include <gmock/gmock.h>

namespace longhaul::control {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class DriverChecks : public Driver {};

TEST_F(DriverChecks, AFailedPreflightTakesASpare) {
  bench.emplace(2, 1);
  bench->policy.preflight = true;
  bench->begin();
  bench->join_all();
  EXPECT_EQ(bench->core->state(), State::kCheck);
  ASSERT_EQ(bench->checked.size(), 2U);
  bench->wait(1);
  const int64_t id = bench->last_checks.id;
  bench->send(
      FromNode{"node-0", CheckResults{.id = id,
                                      .suite = "preflight",
                                      .checks = {{.name = "disk", .passed = false, .text = "too slow"}}}});
  bench->send(FromNode{"node-1", CheckResults{.id = id, .suite = "preflight", .checks = {{.name = "disk"}}}});
  EXPECT_EQ(bench->core->ledger().nodes.at("node-0").state, "evicted");
  for (int i = 0; i < 3 && bench->starts.empty(); ++i) {
    bench->wait(1);
    bench->send(FromNode{
        "node-2",
        CheckResults{.id = bench->last_checks.id, .suite = "preflight", .checks = {{.name = "disk"}}}});
  }
  EXPECT_EQ(ranks_text(bench->running), "node-1:0,1 node-2:2,3 ");
}

// Three nodes compute the same small step: one has other bits.
TEST_F(DriverChecks, TheMinorityOfBitsFails) {
  bench.emplace(3);
  bench->policy.preflight = true;
  bench->begin();
  bench->join_all();
  const int64_t id = bench->last_checks.id;
  for (const auto& [node, bits] :
       std::map<std::string, std::string>{{"node-0", "a"}, {"node-1", "b"}, {"node-2", "a"}}) {
    bench->send(FromNode{
        node, CheckResults{.id = id, .suite = "preflight", .checks = {{.name = "step", .signature = bits}}}});
  }
  EXPECT_EQ(bench->core->ledger().nodes.at("node-1").state, "evicted");
  EXPECT_EQ(bench->core->ledger().nodes.at("node-0").state, "spare");
}

// The third crash on a node within a day: it is checked with its ranks gone, and the verdict decides whether
// it is used.
TEST_F(DriverChecks, ASuspectedNodeIsCheckedBeforeItIsUsedAgain) {
  const auto train = [&](int64_t from, int64_t to) {  // the spare lives too
    for (int64_t step = from; step <= to; ++step) {
      bench->send(
          FromNode{"node-2", NodeBeat{.generation = bench->core->generation(), .running = {}, .ended = {}}});
      bench->train(step, step);
    }
  };
  for (const bool passes : {true, false}) {
    bench.emplace(2, 1);
    bench->policy.stop_checks = true;
    bench->begin();
    bench->join_all();
    train(0, 10);
    for (int64_t crash = 0; crash < 3; ++crash) {
      bench->send(Committed{10 + crash});
      bench->ends(3, 139);
      bench->wait(1.2);
      if (crash < 2) train(10 + crash, 12 + crash);
    }
    ASSERT_EQ(bench->core->state(), State::kDiagnose);
    EXPECT_EQ(bench->checked, std::vector<std::string>{"node-1"});
    EXPECT_EQ(bench->last_checks.suite, "stop_time");
    for (int second = 0; second < 30; ++second) {
      for (const char* node : {"node-0", "node-1", "node-2"})
        bench->send(FromNode{node, NodeBeat{.generation = 3, .running = {}, .ended = {}}});
      bench->wait(1);
    }
    EXPECT_EQ(bench->core->state(), State::kDiagnose) << "as long as its checks take";
    bench->send(FromNode{
        "node-1", CheckResults{.id = bench->last_checks.id,
                               .suite = "stop_time",
                               .checks = {{.name = "product", .passed = passes, .text = "wrong bits"}}}});
    bench->wait(1);
    train(12, 14);
    EXPECT_EQ(ranks_text(bench->running), passes ? "node-0:0,1 node-1:2,3 " : "node-0:0,1 node-2:2,3 ");
    const observe::IncidentReport& last = bench->incidents.back();
    EXPECT_EQ(last.node, "node-1");
    EXPECT_EQ(last.action, passes ? "restart" : "evict_node");
    EXPECT_THAT(last.evidence.back(),
                HasSubstr(passes ? "all checks of its node passed" : "product failed: wrong bits"));
  }
}

// Nobody is left: the run says which check of whom failed, and does not wait for nodes without a word.
TEST_F(DriverChecks, WithoutANodeThatPassesTheRunSaysWhy) {
  bench.emplace(1);
  bench->policy.preflight = true;
  bench->begin();
  bench->join_all();
  bench->send(FromNode{
      "node-0",
      CheckResults{
          .id = bench->last_checks.id,
          .suite = "preflight",
          .checks = {{.name = "gpu", .passed = false, .text = "GPU 2: rows that can be remapped"}}}});
  bench->wait(bench->policy.join_s + 1);
  ASSERT_TRUE(bench->finish);
  EXPECT_EQ(bench->finish->code, ExitCode::kCommunication);
  EXPECT_THAT(bench->finish->text, AllOf(HasSubstr("node-0"), HasSubstr("GPU 2: rows that can be remapped")));
}

// A link that flaps twice in five minutes costs its node its place, where another can take it; else the run
// lives with it.
TEST_F(DriverChecks, AFlappingLinkEndsNoRankWhereNobodyCanTakeItsPlace) {
  for (const int64_t spares : {1, 0}) {
    start(1, spares);
    bench->send(
        FromNode{"node-0", HealthReport{.kind = "network", .device = "eth0", .text = "its link is lost"}});
    bench->train(10, 11);
    EXPECT_EQ(bench->core->generation(), 1) << "once is tolerated";
    bench->send(
        FromNode{"node-0", HealthReport{.kind = "network", .device = "eth0", .text = "its link is lost"}});
    bench->wait(2);
    EXPECT_EQ(bench->core->generation(), spares == 1 ? 2 : 1);
    EXPECT_EQ(bench->core->ledger().nodes.at("node-0").state, spares == 1 ? "evicted" : "active");
    EXPECT_EQ(bench->core->ledger().incident_count, 2);
  }
}

// What only makes a machine slower waits for a checkpoint, and for somebody to take its place.
TEST_F(DriverChecks, AHotOrNarrowMachineIsReplacedAtTheNextCheckpoint) {
  for (const std::string kind : {"throttled", "degraded_link", "device_degraded"}) {
    start(1, 1);
    bench->send(FromNode{"node-0", HealthReport{.kind = kind, .device = "GPU-1", .text = "as it is"}});
    bench->train(10, 12);
    EXPECT_EQ(bench->core->generation(), 1) << kind;
    EXPECT_TRUE(bench->stops.empty()) << kind;
    bench->send(Committed{12});
    bench->wait(1);
    EXPECT_EQ(bench->core->generation(), 2) << kind;
    EXPECT_EQ(ranks_text(bench->running), "node-1:0,1 ") << kind;
  }
}

}  // namespace
}  // namespace longhaul::control
