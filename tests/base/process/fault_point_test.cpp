#include "base/process/fault_point.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <map>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/temporary_folder.h"
#include "base/threads/worker.h"

namespace longhaul {
namespace {

FaultPlan plan_of(std::string_view text, std::map<std::string, std::string> variables = {}) {
  return FaultPlan(text, [=](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional<std::string>(found->second);
  });
}

TEST(FaultPoint, IsReadWithItsConditions) {
  const auto faults = parse_faults(
      "step.update:step=12:rank=2:generation=1 kill; checkpoint.before_rename:count=2 slow=0.25;");
  ASSERT_EQ(faults.size(), 2);
  EXPECT_EQ(faults[0].point, "step.update");
  EXPECT_EQ(faults[0].step, 12);
  EXPECT_EQ(faults[0].rank, 2);
  EXPECT_EQ(faults[0].generation, 1);
  EXPECT_EQ(faults[0].action, FaultAction::kKill);
  EXPECT_EQ(faults[1].count, 2);
  EXPECT_EQ(faults[1].action, FaultAction::kSlow);
  EXPECT_EQ(faults[1].value, 0.25);
  const auto waits = parse_faults("step.data:once=/a:until=/b wait=2.5");
  ASSERT_EQ(waits.size(), 1);
  EXPECT_EQ(waits[0].action, FaultAction::kWait);
  EXPECT_EQ(waits[0].until, "/b");
  EXPECT_EQ(waits[0].value, 2.5);
}

TEST(FaultPoint, AMistakeInItIsRefused) {
  for (const char* text :
       {"step.update", "step.update explode", "step.update:day=3 kill", "step.update:step=x kill",
        "step.update slow", "step.update kill=3", "step.update slow=fast", "step.update slow=-1",
        "step.update:once= kill", "step.update wait=2", "step.update:until= wait=2",
        "step.update:until=/f slow=2"}) {
    EXPECT_THROW(parse_faults(text), Error) << text;
  }
}

TEST(FaultPoint, MeetsOnlyWhereAllConditionsHold) {
  FaultPlan plan =
      plan_of("a:step=3 kill; b:count=2 abort; c:rank=1 hang; d:rank=0 stop; e:node=n1:generation=2 kill",
              {{"LONGHAUL_NODE", "n1"}, {"LONGHAUL_GENERATION", "2"}});
  EXPECT_FALSE(plan.meet("a", 2));
  EXPECT_TRUE(plan.meet("a", 3));
  EXPECT_TRUE(plan.meet("a", 3)) << "without a count it comes every time";
  EXPECT_FALSE(plan.meet("b", 1));
  EXPECT_EQ(plan.meet("b", 1)->action, FaultAction::kAbort);
  EXPECT_FALSE(plan.meet("b", 1));
  EXPECT_FALSE(plan.meet("c", 1)) << "this is rank 0, as without RANK";
  EXPECT_TRUE(plan.meet("d", 1));
  EXPECT_TRUE(plan.meet("e", 1));
  EXPECT_FALSE(plan.meet("f", 1));
}

TEST(FaultPoint, WithAFileItComesOnceToAWholeRun) {
  const TemporaryFolder folder;
  const std::string text = "a:rank=1:once=" + (folder.path() / "a").string() + " kill";
  const std::map<std::string, std::string> variables = {
      {"RANK", "1"}, {"LONGHAUL_GENERATION", "7"}, {"LONGHAUL_NODE", "node-2"}};
  EXPECT_FALSE(plan_of(text, {{"RANK", "0"}}).meet("a", 3)) << "another rank";
  EXPECT_FALSE(read_fault_mark(folder.path() / "a"));
  const double before = wall_time_s();
  EXPECT_TRUE(plan_of(text, variables).meet("a", 3));
  const auto mark = read_fault_mark(folder.path() / "a");
  ASSERT_TRUE(mark);
  EXPECT_EQ(mark->generation, 7);
  EXPECT_EQ(mark->rank, 1);
  EXPECT_NEAR(mark->wall_time, before, 5);
  EXPECT_EQ(mark->process, process_id()) << "who it is is known without asking anybody";
  EXPECT_EQ(mark->node, "node-2");
  EXPECT_FALSE(plan_of(text, variables).meet("a", 3)) << "the process that was started again";
  EXPECT_THROW(plan_of("a:once=/no/such/folder/a kill").meet("a", 3), Error);
}

// A worker blocks signals; a real segmentation fault ends the process all the same.
TEST(FaultPointDeathTest, ASegfaultEndsAProcessFromAnyThread) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        Worker worker("worker");
        worker.post([] { end_by_segfault(); });
        std::this_thread::sleep_for(std::chrono::seconds(5));
      },
      ::testing::KilledBySignal(SIGSEGV), "");
}

TEST(FaultPoint, WithoutAPlanNothingHappens) { EXPECT_FALSE(fault_point("here", 3)); }

}  // namespace
}  // namespace longhaul
