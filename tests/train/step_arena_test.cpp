// Addresses of a step are planned from its first passes, kept in the run folder, read by the next start, and
// made anew where they no longer fit.
#include "train/step_arena.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/files/file.h"
#include "base/files/temporary_folder.h"
#include "recipe/load.h"
#include "support/tensors.h"
#include "tensor/cpu_allocator.h"
#include "tensor/tensor.h"

namespace longhaul::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class StepArenas : public ::testing::Test {
 protected:
  StepArenas() { install_cpu_allocator(); }
  StepArena make(const std::vector<std::string>& more = {}) const {
    return {recipe::load_defaults(more).recipe, folder_.path(), 0, 1, at::kCPU};
  }
  // Three layers, each of which keeps one tensor and makes two others that are soon gone.
  static void passes(int64_t size) {
    std::vector<Tensor> kept;
    for (int layer = 0; layer < 3; ++layer) {
      ReplayArena::cut();
      kept.push_back(at::full({size}, layer, at::kFloat));
      const Tensor one = kept.back() + 1;
      const Tensor two = one * 2;
      EXPECT_EQ(two[size - 1].item<float>(), static_cast<float>(2 * (layer + 1)));
    }
    for (int layer = 0; layer < 3; ++layer)
      EXPECT_EQ(kept[static_cast<size_t>(layer)].sum().item<float>(), static_cast<float>(layer * size));
  }
  static void run_step_in(StepArena& arena, int64_t size) {
    StepArena::Passes in_arena(&arena);
    passes(size);
    in_arena.ended();
  }
  static observe::Metrics told_by(const StepArena& arena) {
    observe::Metrics metrics;
    arena.tell(metrics);
    return metrics;
  }

  TemporaryFolder folder_;
};

constexpr int64_t kSize = 100'000;  // fp32

TEST_F(StepArenas, FirstStepIsLoggedAndLaterOnesReplayed) {
  const longhaul::testing::PoisonFreshMemory poison;
  StepArena arena = make();
  EXPECT_TRUE(told_by(arena).empty()) << "nothing is planned";
  run_step_in(arena, kSize);
  const int64_t room = ReplayArena::room_of(4 * kSize);
  for (int step = 0; step < 3; ++step) {
    run_step_in(arena, kSize);
    const observe::Metrics metrics = told_by(arena);
    // Three that are kept, and two at the same addresses in each layer.
    EXPECT_EQ(metrics.at("memory/arena_live_bytes"), static_cast<double>(5 * room));
    EXPECT_EQ(metrics.at("memory/arena_bytes"), static_cast<double>(5 * room));
    EXPECT_EQ(metrics.at("memory/arena_missed"), 0);
    EXPECT_EQ(metrics.at("memory/arena_missed_bytes"), 0);
    EXPECT_GE(metrics.at("memory/held_bytes"), metrics.at("memory/arena_bytes"));
  }
}

TEST_F(StepArenas, ThePlanIsReadAtTheNextStart) {
  std::filesystem::path path;
  {
    StepArena arena = make();
    run_step_in(arena, kSize);
    path = arena.path();
  }
  KeptPlan plan = read_plan(path);
  EXPECT_EQ(plan.arena.places.size(), 9u);
  EXPECT_EQ(plan.arena.cuts, (std::vector<int64_t>{0, 3, 6}));
  plan.live_bytes = 12345;  // to be known again
  write_plan(path, plan);
  StepArena again = make();
  run_step_in(again, kSize);
  EXPECT_EQ(told_by(again).at("memory/arena_live_bytes"), 12345);
  EXPECT_EQ(told_by(again).at("memory/arena_missed"), 0);
  EXPECT_NE(make({"train.sequence=33"}).path(), path) << "another recipe's";
}

TEST_F(StepArenas, ADamagedPlanIsMadeAnew) {
  StepArena first = make();
  run_step_in(first, kSize);
  const std::string good = read_text(first.path());
  const auto refused = [&](const std::string& text) -> std::string {
    std::ofstream(first.path()) << text;
    try {
      read_plan(first.path());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kData);
      return error.what();
    }
    return "";
  };
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return refused(text);
  };
  EXPECT_EQ(refused(good), "");
  EXPECT_THAT(refused(good.substr(0, good.size() / 2)), HasSubstr("not a plan of addresses"));
  EXPECT_THAT(with("\"version\":1", "\"version\":2"), AllOf(HasSubstr("version"), HasSubstr("1")));
  EXPECT_THAT(with("\"cuts\":[0", "\"cuts\":[99"), HasSubstr("ascending"));
  EXPECT_THAT(with("\"addresses\":[", "\"addresses\":[7,"), HasSubstr("lists of one length"));
  EXPECT_THAT(with("\"block_bytes\":", "\"block_bytes\":1,\"other\":"), HasSubstr("not a plan"));
  EXPECT_THAT(with("\"bytes\":[400000", "\"bytes\":[9400000"), HasSubstr("an address of the block"));
  StepArena again = make();  // of the last one
  run_step_in(again, kSize);
  EXPECT_EQ(read_text(first.path()), good);
}

// Longer rows than those of the plan: the next step is logged; rows that differ each time end with no plan.
TEST_F(StepArenas, APlanThatNoLongerFitsIsMadeAnew) {
  StepArena arena = make();
  run_step_in(arena, kSize);
  run_step_in(arena, 2 * kSize);
  EXPECT_TRUE(told_by(arena).empty());
  run_step_in(arena, 2 * kSize);
  run_step_in(arena, 2 * kSize);
  EXPECT_EQ(told_by(arena).at("memory/arena_missed"), 0);
  for (int64_t step = 0; step < 4 * StepArena::kMostPlans; ++step) run_step_in(arena, kSize + 1000 * step);
  EXPECT_TRUE(told_by(arena).empty());
  run_step_in(arena, kSize);
  run_step_in(arena, kSize);
  EXPECT_TRUE(told_by(arena).empty()) << "no more plans";
}

TEST_F(StepArenas, OfAGpuIsRefused) {
  try {
    StepArena(recipe::load_defaults({}).recipe, folder_.path(), 0, 1, at::Device(at::kCUDA, 0));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("CPU"), HasSubstr("train.arena=false")));
  }
}

// A run folder that cannot be written costs the plan at the next start, and nothing else.
TEST_F(StepArenas, APlanThatCannotBeKept) {
  std::ofstream(folder_ / "arena") << "a file where the folder would be";
  StepArena arena = make();
  run_step_in(arena, kSize);
  run_step_in(arena, kSize);
  EXPECT_EQ(told_by(arena).at("memory/arena_missed"), 0);
}

}  // namespace
}  // namespace longhaul::train
