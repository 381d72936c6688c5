// Ranks that are processes of one machine are refused together where its memory is not enough for all, with
// what would help, and each where its own process may not have so much; what fits goes on. The processes are
// threads here: they see the same memory all the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "base/error.h"
#include "base/machine/machine.h"
#include "comm/threads/run_ranks.h"
#include "recipe/load.h"
#include "run/memory.h"
#include "support/refused.h"

#include "language/decoder_plan.h"

namespace longhaul::run {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr int64_t kRanksHere = 4;

recipe::Recipe recipe_here(int64_t hidden, const std::vector<std::string>& more = {}) {
  std::vector<std::string> overrides = {
      "model.layers=2",       "model.hidden=" + std::to_string(hidden),
      "model.heads=1",        "model.kv_heads=1",
      "train.batch=4",        "train.micro_batch=1",
      "train.sequence=64",    "parallel.ranks=" + std::to_string(kRanksHere),
      "optim.name=adamw",     "model.vocabulary=300",
      "data.tokenizer=bytes", "model.rotary_dim=16",
      "model.head_dim=32"};
  overrides.insert(overrides.end(), more.begin(), more.end());
  return recipe::load_defaults(overrides).recipe;
}

// What each rank is told; "": nothing.
std::vector<std::string> told_here(const recipe::Recipe& recipe, int64_t free_of_process) {
  std::vector<std::string> all(kRanksHere);
  comm::run_ranks(kRanksHere, [&](comm::Communicator& rank) {
    try {
      require_memory(language::DecoderPlan(recipe), recipe,
                     parallel::arrangement_of(recipe.model, recipe.parallel, kRanksHere), at::kCPU,
                     free_of_process, &rank);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kOutOfMemory) << error.what();
      all[static_cast<size_t>(rank.rank())] = error.what();
    }
  });
  return all;
}

double planned_here(const recipe::Recipe& recipe, int64_t ranks) {
  const std::vector<int64_t> all = {0, 1, 2, 3};
  const plan::MemoryPlan plan =
      memory_plan_of(language::DecoderPlan(recipe), memory_request(recipe, at::kCPU),
                     parallel::arrangement_of(recipe.model, recipe.parallel, kRanksHere),
                     std::span(all).first(static_cast<size_t>(ranks)));
  return plan.peak() + plan.communication + plan.not_tensors;
}

// Of one process: what a run needs whose sequences get longer is what it would need with the longest alone,
// and it is refused for that before it begins.
TEST(MachineMemory, TheLongestSequencesDecide) {
  const auto planned = [](const std::vector<std::string>& words) {
    const recipe::Recipe recipe = recipe_here(64, {"parallel.ranks=1", words[0], words[1]});
    const language::DecoderPlan model(recipe);
    const plan::MemoryPlan plan = memory_plan(model, recipe, model.arrange(1), {}, at::kCPU);
    return plan.peak() + plan.communication + plan.not_tensors;
  };
  const double shorter = planned({"train.sequence=64", "train.batch=4"}),
               longer = planned({"train.sequence=256", "train.batch=1"});
  EXPECT_GT(longer, 1.2 * shorter);
  const recipe::Recipe staged = recipe_here(
      64, {"parallel.ranks=1", "optim.stages=[{from_step=3, batch=1, sequence=256}, {from_step=5, lr=1}]"});
  const language::DecoderPlan model(staged);
  const plan::MemoryPlan plan = memory_plan(model, staged, model.arrange(1), {}, at::kCPU);
  EXPECT_DOUBLE_EQ(plan.peak() + plan.communication + plan.not_tensors, longer);
  const auto require = [&](double free) {
    require_memory(model, staged, model.arrange(1), at::kCPU, static_cast<int64_t>(free), nullptr);
  };
  EXPECT_NO_THROW(require(longer + 1));
  EXPECT_THAT(longhaul::testing::refused([&] { require((shorter + longer) / 2); }),
              HasSubstr("sequences have 256 tokens (optim.stages)"));
}

TEST(MachineMemory, ARankOfItsOwnProcessAndAllOfTheMachine) {
  EXPECT_THAT(told_here(recipe_here(64), INT64_MAX), Each("")) << "a small model fits";
  EXPECT_THAT(told_here(recipe_here(64), 1000),
              Each(HasSubstr("does not fit into the memory of its process")));

  // The smallest, by doubling, of which four are too much; then one fits.
  int64_t hidden = 64;
  while (planned_here(recipe_here(hidden), kRanksHere) < static_cast<double>(available_memory_bytes()))
    hidden *= 2;
  const recipe::Recipe large = recipe_here(hidden);
  ASSERT_LT(planned_here(large, 1), static_cast<double>(available_memory_bytes()))
      << "the first alone, which writes the checkpoint, fits";
  EXPECT_THAT(
      told_here(large, INT64_MAX),
      Each(AllOf(HasSubstr("the 4 ranks of this machine (" + machine().host +
                           ") do not fit into its memory together"),
                 HasSubstr("parallel.zero=1 takes "), HasSubstr("fewer ranks on this machine take less"))));
}

// A lever that the ranks cannot have is no advice: a batch of four on four replicas cannot be halved, nor its
// micro-batches of one.
TEST(MachineMemory, AdviceIsOfWhatTheRanksCanHave) {
  const std::string text = told_here(recipe_here(1024), 1000)[0];
  EXPECT_THAT(text, ::testing::Not(HasSubstr("train.batch=")));
  EXPECT_THAT(
      told_here(recipe_here(64, {"train.batch=16", "train.micro_batch=4", "train.sequence=4096"}), 1000)[0],
      HasSubstr("train.micro_batch=1 takes "));
}

}  // namespace
}  // namespace longhaul::run
