#include "bench/driver/faults.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/process/fault_point.h"

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
    EXPECT_EQ(std::ssize(parse_faults(plan.faults("/marks"))), 10 + eaters);
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
    const DrillPlan plan = plan_drills(1, run, 4, 10, {"memory limit", "disk full"});
    ASSERT_EQ(plan.drills.size(), 10);
    for (const Drill& drill : plan.drills) EXPECT_TRUE(drill.kind != "memory limit" && drill.kind != "disk full");
  }
}

TEST(PlannedDrills, NumbersOfRanks) {
  EXPECT_EQ(rank_counts("4,8,16"), (std::vector<int64_t>{4, 8, 16}));
  for (const char* text : {"", "4,", "3", "4;8", "0", "128", "4x"}) EXPECT_THROW(rank_counts(text), Error) << text;
}

}  // namespace
}  // namespace longhaul::bench
