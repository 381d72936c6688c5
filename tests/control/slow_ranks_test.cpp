#include "control/driver/slow_ranks.h"

#include <gtest/gtest.h>

#include <set>

#include "base/random.h"
#include "control/driver/driver_service.h"
#include "control/widths.h"
#include "observe/board/run_status.h"

namespace longhaul::control {
namespace {

constexpr int64_t kRanks = 8;

SlowRanks::StageOf stages_of(int64_t stages, int64_t workers = 1) {
  return [=](int64_t rank, int64_t ranks) { return observe::stage_of_rank(rank, ranks, workers, stages); };
}

// A synchronous step: all take as long as the slowest, and who computes less waits more.
void tell_step(SlowRanks& watch, int64_t generation, int64_t step, int64_t slow_rank, double slower) {
  const RandomStream random(9, "jitter");
  for (int64_t rank = 0; rank < kRanks; ++rank) {
    const double compute = (rank == slow_rank ? 1 + slower : 1) *
                           (0.1 + 0.0005 * random.normal(static_cast<uint64_t>(step * kRanks + rank)));
    RankBeat beat{.rank = rank, .generation = generation, .step = step, .resumed_step = 0};
    beat.step_seconds = 0.15;
    beat.phase_seconds = {{"forward", compute / 3},
                          {"backward", compute / 2},
                          {"optimizer", compute / 6},
                          {"communication", 0.15 - compute}};
    watch.see("node-" + std::to_string(rank / 4), beat);
    // beats come each second, whether a step has ended or not
    watch.see("node-" + std::to_string(rank / 4), beat);
  }
}

TEST(SlowRanksOfARun, OneThatComputesATenthLongerIsToldOfOnce) {
  SlowRanks watch(stages_of(1));
  for (int64_t step = 1; step <= 80; ++step) tell_step(watch, 1, step, 5, 0.1);
  const std::vector<SlowRank> found = watch.look();
  ASSERT_EQ(found.size(), 1);
  EXPECT_EQ(found[0].rank, 5);
  EXPECT_EQ(found[0].node, "node-1");
  EXPECT_NE(found[0].text.find("10 % longer"), std::string::npos) << found[0].text;
  for (int64_t step = 81; step <= 90; ++step) tell_step(watch, 1, step, 5, 0.1);
  const std::vector<SlowRank> again = watch.look();
  ASSERT_EQ(again.size(), 1);
  EXPECT_TRUE(found[0].first);
  EXPECT_FALSE(again[0].first);
  EXPECT_NEAR(found[0].lost_s, 80 * 0.01, 80 * 0.002) << "each step waits a tenth of 0.1 s";
  EXPECT_NEAR(again[0].lost_s, 90 * 0.01, 90 * 0.002);
}

TEST(SlowRanksOfARun, NobodyWhereAllAreAlike) {
  SlowRanks watch(stages_of(2));
  for (int64_t step = 1; step <= 80; ++step) tell_step(watch, 1, step, -1, 0);
  EXPECT_TRUE(watch.look().empty());
}

// The last stage has the head, and computes longer: its ranks are each other's peers.
// The ranks of `heavy` compute half as long again as the others. How many of 16 are found to be slow.
size_t found_slow(const SlowRanks::StageOf& stage_of, const std::set<int64_t>& heavy) {
  SlowRanks watch(stage_of);
  const RandomStream random(9, "jitter");
  for (int64_t step = 1; step <= 80; ++step) {
    for (int64_t rank = 0; rank < 16; ++rank) {
      const double jitter = 0.0005 * random.normal(static_cast<uint64_t>(step * 16 + rank));
      const double compute = (heavy.contains(rank) ? 1.5 : 1) * (0.1 + jitter);
      RankBeat beat{.rank = rank, .generation = 1, .step = step, .resumed_step = 0};
      beat.step_seconds = 0.15;
      beat.phase_seconds = {
          {"forward", compute / 2}, {"backward", compute / 2}, {"communication", 0.15 - compute}};
      watch.see("node-" + std::to_string(rank / 4), beat);
    }
  }
  return watch.look().size();
}

TEST(SlowRanksOfARun, StagesAreNotComparedWithOneAnother) {
  const std::set<int64_t> last_stage = {12, 13, 14, 15};
  EXPECT_EQ(found_slow(stages_of(4), last_stage), 0U);
  EXPECT_EQ(found_slow(stages_of(1), last_stage), 4U) << "of one stage they are behind all others";
}

// Two islands of an outer loop, each with four stages of two ranks: the last stages are ranks 6, 7, 14 and
// 15.
TEST(SlowRanksOfARun, StagesOfIslandsAreThoseOfEachIsland) {
  EXPECT_EQ(found_slow(stages_of(4, 2), {6, 7, 14, 15}), 0U);
  EXPECT_EQ(found_slow(stages_of(4, 1), {6, 7, 14, 15}), 4U) << "as if the islands were one";
}

// The stages that the driver takes from its plan are those that ranks have
// (parallel/pipeline/arrangement.cpp).
TEST(SlowRanksOfARun, ThePlanKnowsIslandsThatTheRecipeDoesNotCount) {
  recipe::Recipe recipe;
  recipe.train.batch = 16;
  recipe.train.micro_batch = 1;
  recipe.parallel.pp = 2;
  recipe.optim.outer.method = recipe::Outer::kCo2;
  for (const int64_t workers : {0, 4}) {
    recipe.parallel.workers = workers;
    const RunPlan plan{.widths = widths_of(recipe, 8)};
    for (int64_t rank = 0; rank < 8; ++rank) EXPECT_EQ(stage_of(plan, rank, 8), rank % 2) << workers;
    EXPECT_EQ(stage_of(plan, 3, 4), 1) << "after two islands are gone";
  }
  recipe.parallel.workers = 2;
  const RunPlan plan{.widths = widths_of(recipe, 8)};
  for (int64_t rank = 0; rank < 8; ++rank) EXPECT_EQ(stage_of(plan, rank, 8), rank / 2 % 2);
}

TEST(SlowRanksOfARun, AnotherGenerationBeginsAnew) {
  SlowRanks watch(stages_of(1));
  for (int64_t step = 1; step <= 80; ++step) tell_step(watch, 1, step, 5, 0.2);
  tell_step(watch, 2, 60, -1, 0);
  EXPECT_TRUE(watch.look().empty()) << "one step of this generation says nothing";
  for (int64_t step = 61; step <= 140; ++step) {
    tell_step(watch, 2, step, 2, 0.2);
    tell_step(watch, 1, step, 5, 0.2);  // late words of the generation before
  }
  const std::vector<SlowRank> found = watch.look();
  ASSERT_EQ(found.size(), 1);
  EXPECT_EQ(found[0].rank, 2);
  // The same rank again, in another generation: news, and what it cost before is not counted twice.
  for (int64_t step = 60; step <= 140; ++step) tell_step(watch, 3, step, 2, 0.2);
  const std::vector<SlowRank> again = watch.look();
  ASSERT_EQ(again.size(), 1);
  EXPECT_TRUE(again[0].first);
  EXPECT_NEAR(again[0].lost_s, 81 * 0.02, 81 * 0.004);
}

}  // namespace
}  // namespace longhaul::control
