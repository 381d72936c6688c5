#include "bench/driver/faults.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/process/fault_point.h"
#include "bench/driver/drill_judgement.h"
#include "bench/driver/driver_drills.h"

namespace longhaul::bench {
namespace {

TEST(PlannedDrills, StandOneBehindTheOtherAndCanBeRead) {
  std::set<std::string> kinds;
  for (int64_t run = 0; run < 40; ++run) {
    const DrillPlan plan = plan_drills(1, run, 4, 10);
    ASSERT_EQ(plan.drills.size(), 10);
    int64_t step = 0;
    for (const Drill& drill : plan.drills) {
      EXPECT_GE(drill.step, step + 2) << "a checkpoint is committed between two of them";
      step = drill.step;
      EXPECT_LT(drill.rank, 4);
      EXPECT_EQ(drill.from_outside, drill.place.empty());
      kinds.insert(drill.kind);
    }
    EXPECT_GE(plan.steps, step + 4);
    const auto eaters = std::ranges::count(plan.drills, "memory limit", &Drill::kind);
    EXPECT_LE(eaters, 1) << "a second lack of memory ends a run";
    const std::vector<PlannedFault> faults = parse_faults(plan.faults("/marks"));
    EXPECT_EQ(std::ranges::count_if(
                  faults, [](const PlannedFault& fault) { return fault.action == FaultAction::kEat; }),
              eaters);
    for (size_t i = 0; i < plan.drills.size(); ++i) {
      const std::string mark = DrillPlan::mark_of("/marks", i).string();
      const auto fault = std::ranges::find(faults, mark, &PlannedFault::once);
      ASSERT_NE(fault, faults.end()) << "each leaves a mark of its own";
      EXPECT_EQ(fault->step, plan.drills[i].step);
      EXPECT_EQ(fault->until.has_value(), plan.drills[i].from_outside)
          << "who is met from outside waits for it";
    }
    for (const Drill& drill : plan.drills) EXPECT_TRUE(drill.kind != "rank 0 stopped" || drill.rank == 0);
  }
  EXPECT_EQ(kinds.size(), kinds_of_drills().size()) << "all kinds come";
}

TEST(PlannedDrills, ASeedFixesThem) {
  EXPECT_EQ(plan_drills(1, 3, 4, 10).faults("m"), plan_drills(1, 3, 4, 10).faults("m"));
  EXPECT_NE(plan_drills(1, 3, 4, 10).faults("m"), plan_drills(2, 3, 4, 10).faults("m"));
  EXPECT_NE(plan_drills(1, 3, 4, 10).faults("m"), plan_drills(1, 4, 4, 10).faults("m"));
}

// What this user cannot have is drawn by nobody, and the plan is of other drills.
TEST(PlannedDrills, KindsThatCannotBeHadHereDoNotCome) {
  for (int64_t run = 0; run < 20; ++run) {
    const DrillPlan plan = plan_drills(1, run, 4, 10, {"memory limit", "disk full", "link cut"});
    ASSERT_EQ(plan.drills.size(), 10);
    EXPECT_FALSE(plan.machines);
    for (const Drill& drill : plan.drills) {
      EXPECT_TRUE(drill.kind != "memory limit" && drill.kind != "disk full" && drill.kind != "link cut" &&
                  drill.kind != "slow rank");
    }
  }
}

// What is noticed after a quarter of a minute has that time to itself: the incident of its generation is its
// own.
TEST(PlannedDrills, NoFaultComesBeforeALateOneIsNoticed) {
  int64_t late = 0;
  for (int64_t run = 0; run < 40; ++run) {
    const DrillPlan plan = plan_drills(1, run, 4, 10);
    const std::vector<PlannedFault> faults = parse_faults(plan.faults("/marks"));
    for (size_t i = 0; i < plan.drills.size(); ++i) {
      if (plan.drills[i].kind != "node frozen" && plan.drills[i].kind != "link cut") continue;
      ++late;
      double waits_s = 0;
      int64_t last = 0;
      for (const PlannedFault& fault : faults) {
        if (fault.until != DrillPlan::met_of("/marks", i).string()) continue;
        EXPECT_EQ(fault.action, FaultAction::kWait);
        EXPECT_LT(fault.value, 3) << "this would be a hang";
        waits_s += fault.value, last = std::max(last, *fault.step);
      }
      EXPECT_GT(waits_s, 16) << "a silent daemon is given up after 15 s";
      if (i + 1 < plan.drills.size()) {
        EXPECT_GT(plan.drills[i + 1].step, last);
      }
      EXPECT_GT(plan.steps, last);
    }
  }
  EXPECT_GT(late, 5);
}

observe::Event lost(std::optional<int64_t> first, std::optional<int64_t> last,
                    const std::string& kind = "events_lost") {
  return {.common = {},
          .body = observe::Alarm{.kind = kind, .message = "", .first_step = first, .last_step = last}};
}

// An alarm excuses the steps that it names, and no other.
TEST(JudgedDrills, AMissingStepMustBeNamed) {
  EXPECT_EQ(missing_in_silence({4, 7}, {}), (std::vector<int64_t>{4, 7}));
  EXPECT_EQ(missing_in_silence({4, 7}, {lost(4, 4)}), (std::vector<int64_t>{7}));
  EXPECT_EQ(missing_in_silence({4, 5, 6, 7, 8}, {lost(5, 7)}), (std::vector<int64_t>{4, 8}));
  EXPECT_EQ(missing_in_silence({4, 7}, {lost(4, 4), lost(6, 9)}), (std::vector<int64_t>{}));
  EXPECT_EQ(missing_in_silence({4}, {lost(std::nullopt, std::nullopt)}), (std::vector<int64_t>{4}))
      << "events, but no step's";
  EXPECT_EQ(missing_in_silence({4}, {lost(4, 4, "disk_full")}), (std::vector<int64_t>{4}));
}

DrillOutcome told(const std::string& kind, int64_t rank, const std::string& node,
                  const observe::IncidentReport& incident, bool explained = false) {
  RunJudgement judgement;
  judgement.ended = judgement.same_bits = true;
  judgement.incidents[3] = incident;
  return outcome_of({.kind = kind, .place = "", .rank = rank}, 4,
                    FaultMark{.generation = 3, .rank = rank, .node = node}, explained, judgement);
}

TEST(JudgedDrills, ADrillIsNamedByItsOwnRankOrNode) {
  observe::IncidentReport incident;
  incident.fault = "killed", incident.rank = 2, incident.node = "node-1";
  EXPECT_TRUE(told("killed", 2, "node-1", incident).named);
  EXPECT_FALSE(told("killed", 1, "node-1", incident).named);
  EXPECT_FALSE(told("memory limit", 2, "node-1", incident).named) << "it was killed, and nobody says by whom";
  incident.fault = "host_out_of_memory";
  EXPECT_TRUE(told("memory limit", 2, "node-1", incident).named);
  EXPECT_FALSE(told("memory limit", 1, "node-1", incident).named);
  incident.fault = "machine_unreachable", incident.rank = -1;
  EXPECT_TRUE(told("node frozen", 3, "node-1", incident).named);
  EXPECT_FALSE(told("node frozen", 0, "node-0", incident).named) << "another node";
  EXPECT_TRUE(told("link cut", 3, "node-1", incident).named);
  EXPECT_FALSE(told("link cut", 3, "node-0", incident).named);
  EXPECT_FALSE(told("half-open connection", 3, "node-0", incident).named);
  EXPECT_TRUE(told("half-open connection", 3, "node-0", incident, true).named)
      << "the incident is a later drill's";
  EXPECT_FALSE(told("link cut", 3, "node-0", incident, true).named);
}

TEST(JudgedDrills, AFullDiskIsToldByAFailedSaveOrByWhatMadeRoom) {
  EXPECT_TRUE(tells_of_a_full_disk("disk_full"));
  EXPECT_TRUE(tells_of_a_full_disk("checkpoints_removed"));
  EXPECT_FALSE(tells_of_a_full_disk("events_lost"));
}

// A daemon that connects again in time makes no incident, and a slow rank an alarm: of that rank, after it
// became slow.
TEST(JudgedDrills, ADrillWithoutAnIncident) {
  RunJudgement judgement;
  judgement.ended = judgement.same_bits = true;
  const FaultMark mark{.generation = 3, .rank = 1, .wall_time = 1000, .node = "node-1"};
  const auto named = [&](const char* kind) {
    return outcome_of({.kind = kind, .place = "", .rank = 1}, 4, mark, false, judgement).named;
  };
  EXPECT_TRUE(named("half-open connection"));
  EXPECT_FALSE(named("link cut"));
  EXPECT_FALSE(named("slow rank"));
  judgement.straggler_alarms = {{0, {1010}}, {1, {990}}};
  EXPECT_FALSE(named("slow rank"));
  judgement.straggler_alarms[1].push_back(1010);
  EXPECT_TRUE(named("slow rank"));
  EXPECT_FALSE(outcome_of({.kind = "killed"}, 4, std::nullopt, false, judgement).happened);
}

TEST(PlannedDrills, NumbersOfRanks) {
  EXPECT_EQ(rank_counts("4,8,16"), (std::vector<int64_t>{4, 8, 16}));
  for (const char* text : {"", "4,", "3", "4;8", "0", "128", "4x"})
    EXPECT_THROW(rank_counts(text), Error) << text;
}

// Seen in two runs of seed 11: rank 0 was stopped while the driver without a journal had not yet ended the
// ranks that it found.
TEST(PlannedDrills, ALostJournalIsOverWithTheNextGeneration) {
  const Drill lost{.kind = "journal lost"}, killed{.kind = "driver killed"};
  for (const int64_t generation : {0, 4, 5})
    EXPECT_FALSE(next_fault_may_come(lost, 5, {{"generation", generation}})) << generation;
  EXPECT_TRUE(next_fault_may_come(lost, 5, {{"generation", 6}}));
  EXPECT_TRUE(next_fault_may_come(killed, 5, {{"generation", 5}}))
      << "it finds its ranks, and what happens to them is told";
}

}  // namespace
}  // namespace longhaul::bench
