// What DriverCore does about hangs, drivers that come back, strangers, people and checks.
#include "control/driver_bench.h"

#include <gmock/gmock.h>

namespace longhaul::control {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class DriverWatch : public Driver {
 protected:
  // Steps go on, and a save that began on all ranks at once does not end. silent: a rank whose process gives a sign no more from the 95th second on.
  void save_late_on_all_ranks(int64_t silent = -1) {
    for (int64_t age_s = 0; bench->core->state() == State::kTrain && age_s < 200; ++age_s) {
      for (const auto& [node, ranks] : bench->running) {
        NodeBeat beat{.generation = bench->core->generation(), .running = {}, .ended = {}};
        for (const int64_t rank : ranks) {
          RankBeat of_rank{.rank = rank, .generation = bench->core->generation(), .step = 11 + age_s, .resumed_step = 0};
          of_rank.background = {{.name = "write checkpoint", .age_s = static_cast<double>(age_s), .allowed_s = 100}};
          if (rank == silent) of_rank.beat_age_s = std::max(0.0, static_cast<double>(age_s) - 94);
          beat.running.push_back(of_rank);
        }
        bench->send(FromNode{node, beat});
      }
      bench->wait(1);
    }
  }
};

// 5 × the longest interval, at least the floor; noticed within a second after it.
TEST_F(DriverWatch, AHangIsNoticedAfterItsTimeOut) {
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
  EXPECT_TRUE(bench->analysis);
  bench->send(HangFound{.generation = 1, .suspects = {2}, .text = "rank 2 never came to all_reduce 'loss'"});
  EXPECT_EQ(bench->stops.size(), 2U);
  bench->wait(0.5);
  bench->train(10, 12);
  ASSERT_EQ(bench->incidents.size(), 1U);
  EXPECT_EQ(bench->incidents[0].fault, "hang");
  EXPECT_EQ(bench->incidents[0].rank, 2);
  EXPECT_THAT(bench->incidents[0].action, HasSubstr("no other node")) << "without a spare it goes on in place";
}

// A rank that hung outside all phases within its first half second of steps was noticed after half an hour: nothing had been learnt of idle.
TEST_F(DriverWatch, BetweenStepsNobodyStandsLongerThanTheFloor) {
  start();
  const auto stands_s = [&](int64_t step, double most_s) {
    const double begin_s = bench->now_s;
    while (bench->core->state() == State::kTrain && bench->now_s < begin_s + most_s) {
      bench->beats(step, 0, "idle", bench->now_s - begin_s);
      bench->wait(1);
    }
    return bench->now_s - begin_s;
  };
  EXPECT_GE(stands_s(100, 200), 200) << "behind the last step a report is written";
  start();
  EXPECT_LE(stands_s(10, 200), 62);
  EXPECT_EQ(bench->core->state(), State::kSuspect);
}

TEST_F(DriverWatch, ANodeIsPutOutWithALineAndItsIncidentHasTheStory) {
  start(2, 1);
  bench->send(FromNode{"node-1", HealthReport{.kind = "device_missing", .text = "the card is lost\n  thread 7: read\n  thread 8: poll"}});
  bench->wait(2);
  bench->train(10, 12);
  const NodeChanged& node = bench->core->ledger().nodes.at("node-1");
  EXPECT_EQ(node.state, "evicted");
  EXPECT_THAT(node.reason, AllOf(HasSubstr("the card is lost"), Not(HasSubstr("thread 7"))));
  ASSERT_EQ(bench->incidents.size(), 1U);
  EXPECT_THAT(bench->incidents[0].evidence.front(), HasSubstr("thread 8"));
}

// All wait for one that evaluates: that is no hang while it is within its own time.
TEST_F(DriverWatch, WaitingForOneThatWorksIsNoHang) {
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

// Rank 0 stands in a phase of its task, and rank 1 waits for it in a call.
class PhasesOfTasks : public DriverWatch {
 protected:
  void stand(const observe::TaskPhaseState& phase, int64_t step, double age_s) {
    NodeBeat beat{.generation = bench->core->generation(), .running = {}, .ended = {}};
    RankBeat first{.rank = 0, .generation = bench->core->generation(), .progress_age_s = age_s, .step = step, .resumed_step = 0};
    RankBeat second = first;
    second.rank = 1;
    first.phase = "task";
    first.task_phase = phase;
    second.phase = "communication";
    second.progress_age_s = bench->now_s - begin_s;
    beat.running = {first, second};
    bench->send(FromNode{"node-0", beat});
    bench->wait(1);
  }
  // Seconds until the ranks count as hanging, while rank 0 makes progress every `every_s`; `most_s`: not until then.
  double hangs_after_s(observe::TaskPhaseState phase, int64_t step, double every_s, double most_s) {
    begin_s = bench->now_s;
    double progress_s = begin_s;
    while (bench->core->state() == State::kTrain && bench->now_s < begin_s + most_s) {
      if (bench->now_s - progress_s >= every_s) ++phase.done, progress_s = bench->now_s;
      stand(phase, step, bench->now_s - progress_s);
    }
    return bench->now_s - begin_s;
  }
  void start_without_a_step() {
    bench.emplace(1, 0);
    bench->begin();
    bench->join_all();
    bench->beats(0, 0);
    bench->wait(1);
    ASSERT_EQ(bench->core->state(), State::kTrain);
  }
  double begin_s = 0;
  static constexpr double kNever = 1e9;
};

TEST_F(PhasesOfTasks, ALongOneThatMakesProgressIsNoHang) {
  start(1);
  EXPECT_GE(hangs_after_s({.name = "rollout"}, 10, /*every_s=*/50, /*most_s=*/7200), 7200);
  EXPECT_EQ(bench->core->state(), State::kTrain);
}

TEST_F(PhasesOfTasks, AStuckOneIsAHangAfterFiveTimesWhatWasSeen) {
  start(1);
  EXPECT_GE(hangs_after_s({.name = "rollout"}, 10, /*every_s=*/100, /*most_s=*/450), 450);
  bench->train(11, 12);
  EXPECT_NEAR(hangs_after_s({.name = "rollout"}, 13, kNever, 4000), 5 * 100, 5);
  EXPECT_EQ(bench->core->state(), State::kSuspect);
}

TEST_F(PhasesOfTasks, AStuckOneIsAHangAfterWhatTheTaskStates) {
  start(1);
  EXPECT_NEAR(hangs_after_s({.name = "rollout", .allowed_s = 900}, 10, kNever, 4000), 900, 3);
  EXPECT_EQ(bench->core->state(), State::kSuspect);
}

// The first step takes longer than a first step may, because the task generates for so long.
TEST_F(PhasesOfTasks, OneInTheFirstStepIsNoLateFirstStep) {
  start_without_a_step();
  EXPECT_GE(hangs_after_s({.name = "rollout"}, 0, /*every_s=*/60, 3 * bench->policy.first_step_s), 3 * bench->policy.first_step_s);
  begin_s = bench->now_s;
  while (bench->core->state() == State::kTrain && bench->now_s < begin_s + 10000) {
    bench->beats(0, 0, "forward", bench->now_s - begin_s);
    bench->wait(1);
  }
  EXPECT_NEAR(bench->now_s - begin_s, bench->policy.first_step_s, 10) << "the rest of the step has its whole time";
}

TEST_F(PhasesOfTasks, AStuckOneInTheFirstStepIsAHang) {
  start_without_a_step();
  EXPECT_NEAR(hangs_after_s({.name = "rollout", .allowed_s = 300}, 0, kNever, 4000), 300, 3);
  EXPECT_EQ(bench->core->state(), State::kSuspect);
}

// A save that does not end is seen while the steps go on: at what it was allowed until one was seen to end, then at five times the longest.
TEST_F(DriverWatch, ASaveThatHangsHasADeadlineOfItsOwn) {
  start(1);
  double save_s = 0;
  const auto step = [&](int64_t number) {
    NodeBeat beat{.generation = bench->core->generation(), .running = {}, .ended = {}};
    for (int64_t rank = 0; rank < 2; ++rank) {
      RankBeat of_rank{.rank = rank, .generation = bench->core->generation(), .step = number, .resumed_step = 0};
      if (rank == 1 && save_s >= 0) of_rank.background = {{.name = "write checkpoint", .age_s = save_s, .allowed_s = 100}};
      beat.running.push_back(of_rank);
    }
    bench->send(FromNode{"node-0", beat});
    bench->wait(1);
    if (save_s >= 0) save_s += 1;
  };
  int64_t number = 11;
  for (; save_s < 90; ++number) step(number);
  ASSERT_EQ(bench->core->state(), State::kTrain) << "within what it is allowed";
  save_s = -1;
  step(number++);
  for (int saves = 0; saves < 2; ++saves) {  // twenty seconds each: the longest stays 89
    for (save_s = 0; save_s < 20; ++number) step(number);
    save_s = -1;
    step(number++);
  }
  for (save_s = 0; bench->core->state() == State::kTrain && save_s < 1000; ++number) step(number);
  EXPECT_NEAR(save_s, 5 * 89, 3);
  EXPECT_EQ(bench->core->state(), State::kSuspect);
  bench->send(FromNode{"node-0", Evidence{.generation = 1, .last = true}});
  EXPECT_TRUE(bench->analysis);
  bench->send(HangFound{.generation = 1, .suspects = {1}, .program = true, .text = "pwrite64"});
  bench->wait(1);
  bench->train(number, number + 2);
  ASSERT_EQ(bench->incidents.size(), 1U);
  EXPECT_EQ(bench->incidents[0].fault, "stuck_work");
  EXPECT_EQ(bench->incidents[0].rank, 1);
  EXPECT_EQ(bench->incidents[0].action, "restart");
  EXPECT_THAT(bench->incidents[0].evidence[0], HasSubstr("'write checkpoint' does not end on rank 1: pwrite64"));
  EXPECT_NEAR(bench->incidents[0].detected_milliseconds, 5 * 89e3, 3e3);
  ASSERT_TRUE(bench->incidents[0].overdue_milliseconds.has_value());
  EXPECT_GT(*bench->incidents[0].overdue_milliseconds, 0);
  EXPECT_LE(*bench->incidents[0].overdue_milliseconds, 2e3);  // a beat a second
}

// Steps that are quicker than the save come to the next one and wait there for it: what hangs is still the save, and by its deadline.
TEST_F(DriverWatch, ANextSaveThatWaitsForOneThatHangsIsNotWhatHangs) {
  start(1);
  bench->beats(11, 0, "checkpoint", 0.5);  // a save that went well: from here on the phase has the floor, a minute
  bench->wait(1);
  bench->beats(12, 0);
  bench->wait(1);
  double waits_s = 0;
  for (; bench->core->state() == State::kTrain && waits_s < 200; ++waits_s) {
    NodeBeat beat{.generation = 1, .running = {}, .ended = {}};
    for (int64_t rank = 0; rank < 2; ++rank) {
      RankBeat of_rank{.rank = rank, .generation = 1, .progress_age_s = waits_s, .step = 12, .resumed_step = 0};
      of_rank.phase = "checkpoint";
      of_rank.background = {{.name = "write checkpoint", .age_s = 2 + waits_s, .allowed_s = 100}};
      beat.running.push_back(of_rank);
    }
    bench->send(FromNode{"node-0", beat});
    bench->wait(1);
  }
  EXPECT_NEAR(waits_s, 98, 3);
  bench->send(FromNode{"node-0", Evidence{.generation = 1, .last = true}});
  ASSERT_TRUE(bench->analysis);
  EXPECT_EQ(bench->analysis->work, "write checkpoint");
}

// Survivors are asked to leave what they have, with time for as much as they hold; not where a machine computes wrong numbers.
TEST_F(DriverWatch, SurvivorsLeaveTheirStateUnlessItCannotBeBelieved) {
  start();
  bench->ends(3, 137);
  ASSERT_FALSE(bench->stops.empty());
  EXPECT_TRUE(bench->stops.back().second.leave);
  EXPECT_DOUBLE_EQ(bench->stops.back().second.grace_s, bench->policy.leave_s) << "no rank told how much memory it has";
  for (const ExitCode code : {ExitCode::kDevice, ExitCode::kNumeric}) {
    start();
    bench->stops.clear();
    bench->ends(3, static_cast<int64_t>(code));
    ASSERT_FALSE(bench->stops.empty());
    EXPECT_FALSE(bench->stops.back().second.leave) << static_cast<int>(code);
    EXPECT_EQ(bench->stops.back().second.grace_s, 0);
  }
}

// What is late is a save, but one process does not run at all: it is a hang of that rank, and no work of others that is stuck.
TEST_F(DriverWatch, AProcessThatIsStoppedIsNamedWhateverOfItsWorkIsLate) {
  start();
  save_late_on_all_ranks();
  ASSERT_EQ(bench->core->state(), State::kSuspect);
  for (const char* node : {"node-0", "node-1"}) bench->send(FromNode{node, Evidence{.generation = 1, .last = true}});
  bench->send(HangFound{.generation = 1, .suspects = {2}, .stopped = true, .text = "rank 2 does not even beat"});
  bench->wait(1);
  bench->train(10, 12);
  ASSERT_EQ(bench->incidents.size(), 1U);
  EXPECT_EQ(bench->incidents[0].fault, "hang");
  EXPECT_EQ(bench->incidents[0].rank, 2);
  EXPECT_THAT(bench->incidents[0].evidence[0], HasSubstr("rank 2 does not even beat"));
}

// Nobody has told what the ranks wait for, and one has not beaten for as long as the save has lasted.
TEST_F(DriverWatch, WithoutEvidenceASilentProcessIsNamed) {
  start();
  save_late_on_all_ranks(/*silent=*/2);
  ASSERT_EQ(bench->core->state(), State::kSuspect);
  bench->wait(12);
  bench->train(10, 12);
  ASSERT_EQ(bench->incidents.size(), 1U);
  EXPECT_EQ(bench->incidents[0].fault, "hang");
  EXPECT_EQ(bench->incidents[0].rank, 2);
}

// The storage that all ranks write to hangs: nobody waits for anybody, and all are named, though no node is blamed for it.
TEST_F(DriverWatch, ASaveThatHangsOnAllRanksNamesThemAll) {
  start();
  save_late_on_all_ranks();
  ASSERT_EQ(bench->core->state(), State::kSuspect);
  for (const char* node : {"node-0", "node-1"}) bench->send(FromNode{node, Evidence{.generation = 1, .last = true}});
  ASSERT_TRUE(bench->analysis);
  EXPECT_EQ(bench->analysis->work, "write checkpoint");
  EXPECT_EQ(bench->analysis->at_it, (std::vector<int64_t>{0, 1, 2, 3}));
  bench->send(HangFound{.generation = 1, .suspects = {}, .text = "none of them stands in a call"});
  bench->wait(1);
  bench->train(10, 12);
  ASSERT_EQ(bench->incidents.size(), 1U);
  const observe::IncidentReport& incident = bench->incidents[0];
  EXPECT_EQ(incident.fault, "stuck_work");
  EXPECT_EQ(incident.rank, -1);
  EXPECT_EQ(incident.node, "");
  EXPECT_EQ(incident.action, "restart");
  EXPECT_EQ(incident.suspects, (std::vector<std::string>{"rank 0", "rank 1", "rank 2", "rank 3"}));
  EXPECT_THAT(incident.evidence[0], HasSubstr("'write checkpoint' does not end on rank 0, 1, 2, 3: none of them stands in a call"));
  EXPECT_LE(*incident.overdue_milliseconds, 1e3);
}

TEST_F(DriverWatch, AProcessWithoutAnySignIsTheSuspect) {
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

TEST_F(DriverWatch, ADriverThatComesBackFindsItsRanks) {
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

TEST_F(DriverWatch, RanksThatEndedWhileTheDriverWasAwayAreStartedAgain) {
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

TEST_F(DriverWatch, StrangersAreRefused) {
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
TEST_F(DriverWatch, AnOldGenerationIsNotHeard) {
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

TEST_F(DriverWatch, APersonEvictsANode) {
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

TEST_F(DriverWatch, TheLastNodeCannotBeEvicted) {
  start(1);
  bench->send(Evict{.target = "node-0"});
  EXPECT_FALSE(bench->replies.back().good);
  EXPECT_EQ(bench->core->state(), State::kTrain);
}

TEST_F(DriverWatch, DrainSavesAndEndsWith74) {
  start();
  bench->send(Drain{"Ctrl-C"});
  EXPECT_TRUE(bench->stops.back().second.save);
  ASSERT_TRUE(bench->finish);
  EXPECT_EQ(bench->finish->code, ExitCode::kPreemptedSaved);
}

TEST_F(DriverWatch, AFailedPreflightTakesASpare) {
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
TEST_F(DriverWatch, TheMinorityOfBitsFails) {
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

// The third crash on a node within a day: it is checked with its ranks gone, and the verdict decides whether it is used.
TEST_F(DriverWatch, ASuspectedNodeIsCheckedBeforeItIsUsedAgain) {
  const auto train = [&](int64_t from, int64_t to) {  // the spare lives too
    for (int64_t step = from; step <= to; ++step) {
      bench->send(FromNode{"node-2", NodeBeat{.generation = bench->core->generation(), .running = {}, .ended = {}}});
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
    bench->send(FromNode{"node-1", CheckResults{.id = bench->last_checks.id,
                                                .suite = "stop_time",
                                                .checks = {{.name = "product", .passed = passes, .text = "wrong bits"}}}});
    bench->wait(1);
    train(12, 14);
    EXPECT_EQ(ranks_text(bench->running), passes ? "node-0:0,1 node-1:2,3 " : "node-0:0,1 node-2:2,3 ");
    const observe::IncidentReport& last = bench->incidents.back();
    EXPECT_EQ(last.node, "node-1");
    EXPECT_EQ(last.action, passes ? "restart" : "evict_node");
    EXPECT_THAT(last.evidence.back(), HasSubstr(passes ? "all checks of its node passed" : "product failed: wrong bits"));
  }
}

// Nobody is left: the run says which check of whom failed, and does not wait for nodes without a word.
TEST_F(DriverWatch, WithoutANodeThatPassesTheRunSaysWhy) {
  bench.emplace(1);
  bench->policy.preflight = true;
  bench->begin();
  bench->join_all();
  bench->send(FromNode{"node-0", CheckResults{.id = bench->last_checks.id,
                                              .suite = "preflight",
                                              .checks = {{.name = "gpu", .passed = false, .text = "GPU 2: rows that can be remapped"}}}});
  bench->wait(bench->policy.join_s + 1);
  ASSERT_TRUE(bench->finish);
  EXPECT_EQ(bench->finish->code, ExitCode::kCommunication);
  EXPECT_THAT(bench->finish->text, AllOf(HasSubstr("node-0"), HasSubstr("GPU 2: rows that can be remapped")));
}

// A link that flaps twice in five minutes costs its node its place, where another can take it; else the run lives with it.
TEST_F(DriverWatch, AFlappingLinkEndsNoRankWhereNobodyCanTakeItsPlace) {
  for (const int64_t spares : {1, 0}) {
    start(1, spares);
    bench->send(FromNode{"node-0", HealthReport{.kind = "network", .device = "eth0", .text = "its link is lost"}});
    bench->train(10, 11);
    EXPECT_EQ(bench->core->generation(), 1) << "once is tolerated";
    bench->send(FromNode{"node-0", HealthReport{.kind = "network", .device = "eth0", .text = "its link is lost"}});
    bench->wait(2);
    EXPECT_EQ(bench->core->generation(), spares == 1 ? 2 : 1);
    EXPECT_EQ(bench->core->ledger().nodes.at("node-0").state, spares == 1 ? "evicted" : "active");
    EXPECT_EQ(bench->core->ledger().incident_count, 2);
  }
}

// What only makes a machine slower waits for a checkpoint, and for somebody to take its place.
TEST_F(DriverWatch, AHotOrNarrowMachineIsReplacedAtTheNextCheckpoint) {
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

TEST_F(DriverWatch, StatusHasTheFieldsThatWereAgreed) {
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

TEST_F(DriverWatch, ItsJournalGivesItsLedger) {
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
