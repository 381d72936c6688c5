// How DriverCore watches ranks: hangs, saves that do not end, processes that give no sign.
#include "control/driver/driver_bench.h"

#include <gmock/gmock.h>

namespace longhaul::control {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class DriverWatch : public Driver {
 protected:
  // Steps go on, and a save that began on all ranks at once does not end. silent: a rank whose process gives
  // a sign no more from the 95th second on.
  void save_late_on_all_ranks(int64_t silent = -1) {
    for (int64_t age_s = 0; bench->core->state() == State::kTrain && age_s < 200; ++age_s) {
      for (const auto& [node, ranks] : bench->running) {
        NodeBeat beat{.generation = bench->core->generation(), .running = {}, .ended = {}};
        for (const int64_t rank : ranks) {
          RankBeat of_rank{
              .rank = rank, .generation = bench->core->generation(), .step = 11 + age_s, .resumed_step = 0};
          of_rank.background = {
              {.name = "write checkpoint", .age_s = static_cast<double>(age_s), .allowed_s = 100}};
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
  for (const char* node : {"node-0", "node-1"})
    bench->send(FromNode{node, Evidence{.generation = 1, .last = true}});
  EXPECT_TRUE(bench->analysis);
  bench->send(HangFound{.generation = 1, .suspects = {2}, .text = "rank 2 never came to all_reduce 'loss'"});
  EXPECT_EQ(bench->stops.size(), 2U);
  bench->wait(0.5);
  bench->train(10, 12);
  ASSERT_EQ(bench->incidents.size(), 1U);
  EXPECT_EQ(bench->incidents[0].fault, "hang");
  EXPECT_EQ(bench->incidents[0].rank, 2);
  EXPECT_THAT(bench->incidents[0].action, HasSubstr("no other node"))
      << "without a spare it goes on in place";
}

// A rank that hung outside all phases within its first half second of steps was noticed after half an hour:
// nothing had been learnt of idle.
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

// What a node says of its machine and a rank of its device stands in the status, of the last beat and of no
// earlier one.
TEST_F(DriverWatch, SamplesOfMachinesStandInTheStatus) {
  start();
  const auto send = [&](std::map<std::string, double> machine) {
    RankBeat rank{.rank = 0, .generation = bench->core->generation(), .step = 11, .resumed_step = 0};
    rank.device_bytes = 5'000'000;
    bench->send(FromNode{
        "node-0",
        NodeBeat{
            .generation = bench->core->generation(), .running = {rank}, .ended = {}, .machine = machine}});
    return bench->core->status(bench->now_s);
  };
  const nlohmann::ordered_json status = send({{"cpu_usage", 37.123456}, {"tcp_throughput", 1.5}});
  EXPECT_EQ(status.at("nodes")[0].at("machine"),
            (nlohmann::ordered_json{{"cpu_usage", 37.12}, {"tcp_throughput", 1.5}}));
  EXPECT_FALSE(status.at("nodes")[1].contains("machine"));
  EXPECT_EQ(status.at("ranks")[0].at("device_bytes"), 5'000'000);
  EXPECT_FALSE(status.at("ranks")[1].contains("device_bytes")) << "an old program, or nothing known";
  EXPECT_FALSE(send({}).at("nodes")[0].contains("machine"));
}

TEST_F(DriverWatch, ANodeIsPutOutWithALineAndItsIncidentHasTheStory) {
  start(2, 1);
  bench->send(
      FromNode{"node-1", HealthReport{.kind = "device_missing",
                                      .text = "the card is lost\n  thread 7: read\n  thread 8: poll"}});
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
      RankBeat of_rank{.rank = rank,
                       .generation = 1,
                       .progress_age_s = bench->now_s - begin_s,
                       .step = 10,
                       .resumed_step = 0};
      of_rank.phase = rank == 0 ? "evaluation" : "communication";
      beat.running.push_back(of_rank);
    }
    bench->send(FromNode{"node-0", beat});
    bench->wait(1);
  }
  EXPECT_EQ(bench->core->state(), State::kTrain);
}

// A save that does not end is seen while the steps go on: at what it was allowed until one was seen to end,
// then at five times the longest.
TEST_F(DriverWatch, ASaveThatHangsHasADeadlineOfItsOwn) {
  start(1);
  double save_s = 0;
  const auto step = [&](int64_t number) {
    NodeBeat beat{.generation = bench->core->generation(), .running = {}, .ended = {}};
    for (int64_t rank = 0; rank < 2; ++rank) {
      RankBeat of_rank{
          .rank = rank, .generation = bench->core->generation(), .step = number, .resumed_step = 0};
      if (rank == 1 && save_s >= 0)
        of_rank.background = {{.name = "write checkpoint", .age_s = save_s, .allowed_s = 100}};
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
  EXPECT_THAT(bench->incidents[0].evidence[0],
              HasSubstr("'write checkpoint' does not end on rank 1: pwrite64"));
  EXPECT_NEAR(bench->incidents[0].detected_milliseconds, 5 * 89e3, 3e3);
  ASSERT_TRUE(bench->incidents[0].overdue_milliseconds.has_value());
  EXPECT_GT(*bench->incidents[0].overdue_milliseconds, 0);
  EXPECT_LE(*bench->incidents[0].overdue_milliseconds, 2e3);  // a beat a second
}

// Steps that are quicker than the save come to the next one and wait there for it: what hangs is still the
// save, and by its deadline.
TEST_F(DriverWatch, ANextSaveThatWaitsForOneThatHangsIsNotWhatHangs) {
  start(1);
  // a save that went well: from here on the phase has the floor, a minute
  bench->beats(11, 0, "checkpoint", 0.5);
  bench->wait(1);
  bench->beats(12, 0);
  bench->wait(1);
  double waits_s = 0;
  for (; bench->core->state() == State::kTrain && waits_s < 200; ++waits_s) {
    NodeBeat beat{.generation = 1, .running = {}, .ended = {}};
    for (int64_t rank = 0; rank < 2; ++rank) {
      RankBeat of_rank{
          .rank = rank, .generation = 1, .progress_age_s = waits_s, .step = 12, .resumed_step = 0};
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

// Survivors are asked to leave what they have, with time for as much as they hold; not where a machine
// computes wrong numbers.
TEST_F(DriverWatch, SurvivorsLeaveTheirStateUnlessItCannotBeBelieved) {
  start();
  bench->ends(3, 137);
  ASSERT_FALSE(bench->stops.empty());
  EXPECT_TRUE(bench->stops.back().second.leave);
  EXPECT_DOUBLE_EQ(bench->stops.back().second.grace_s, bench->policy.leave_s)
      << "no rank told how much memory it has";
  for (const ExitCode code : {ExitCode::kDevice, ExitCode::kNumeric}) {
    start();
    bench->stops.clear();
    bench->ends(3, static_cast<int64_t>(code));
    ASSERT_FALSE(bench->stops.empty());
    EXPECT_FALSE(bench->stops.back().second.leave) << static_cast<int>(code);
    EXPECT_EQ(bench->stops.back().second.grace_s, 0);
  }
}

// What is late is a save, but one process does not run at all: it is a hang of that rank, and no work of
// others that is stuck.
TEST_F(DriverWatch, AProcessThatIsStoppedIsNamedWhateverOfItsWorkIsLate) {
  start();
  save_late_on_all_ranks();
  ASSERT_EQ(bench->core->state(), State::kSuspect);
  for (const char* node : {"node-0", "node-1"})
    bench->send(FromNode{node, Evidence{.generation = 1, .last = true}});
  bench->send(
      HangFound{.generation = 1, .suspects = {2}, .stopped = true, .text = "rank 2 does not even beat"});
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

// The storage that all ranks write to hangs: nobody waits for anybody, and all are named, though no node is
// blamed for it.
TEST_F(DriverWatch, ASaveThatHangsOnAllRanksNamesThemAll) {
  start();
  save_late_on_all_ranks();
  ASSERT_EQ(bench->core->state(), State::kSuspect);
  for (const char* node : {"node-0", "node-1"})
    bench->send(FromNode{node, Evidence{.generation = 1, .last = true}});
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
  EXPECT_THAT(incident.evidence[0],
              HasSubstr("'write checkpoint' does not end on rank 0, 1, 2, 3: none of them stands in a call"));
  EXPECT_LE(*incident.overdue_milliseconds, 1e3);
}

TEST_F(DriverWatch, AProcessWithoutAnySignIsTheSuspect) {
  start(1);
  for (int i = 0; i < 12 && bench->core->state() == State::kTrain; ++i) {
    NodeBeat beat{.generation = 1, .running = {}, .ended = {}};
    for (int64_t rank = 0; rank < 2; ++rank) {
      RankBeat of_rank{.rank = rank,
                       .generation = 1,
                       .beat_age_s = rank == 1 ? i : 0.0,
                       .progress_age_s = 1.0 * i,
                       .step = 10,
                       .resumed_step = 0};
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

}  // namespace
}  // namespace longhaul::control
