// Searches: that nothing faster was there, and what they say of layouts that fell.
// ctest: label=full timeout=300
#include "plan/search/search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "base/error.h"
#include "plan/search/search_check.h"
#include "recipe/architecture/presets.h"

namespace longhaul::plan {
namespace {

using recipe::PipelineSchedule;

Cluster a100(int64_t gpus) { return load_cluster("a100", gpus); }
Work gpt_175b() { return work_of(recipe::preset_model("megascale-175b"), 2048); }

// A layout takes a microsecond or two, whatever the model: how many are tried bounds how long a search takes.
TEST(Search, TenThousandDevicesAreFewLayouts) {
  const Work work = gpt_175b();
  const SearchResult found = search(work, a100(10240), {.batch = 5120});
  ASSERT_FALSE(found.best.empty());
  EXPECT_LE(found.tried, 60'000);
  double before = 0;
  for (const PlanCandidate& plan : found.best) {
    EXPECT_EQ(plan.layout.world(), 10240);
    EXPECT_LE(plan.memory.total(), 80e9);
    EXPECT_GE(plan.seconds, before);
    before = plan.seconds;
    const PlanCandidate again = evaluate(work, plan.layout, a100(10240), 5120);
    EXPECT_DOUBLE_EQ(again.seconds, plan.seconds);
  }
  std::set<std::string> reasons;
  for (const Rejected& row : found.rejected) reasons.insert(row.reason);
  EXPECT_TRUE(reasons.contains("it does not fit into memory"));
  EXPECT_TRUE(reasons.contains("the devices cannot be dealt out"));
  EXPECT_TRUE(reasons.contains("a faster layout exists"));
}

// Of twelve layers and twelve heads on eight devices, a batch of 64.
std::vector<PlanLayout> every_layout() {
  std::vector<PlanLayout> all;
  const auto add_memory = [&](PlanLayout layout) {
    for (layout.zero = 0; layout.zero <= (layout.dp > 1 ? 3 : 0); ++layout.zero) {
      const int64_t stages =
          layout.schedule == PipelineSchedule::kDualPipe ? layout.pp : layout.pp * layout.chunks;
      for (const auto recompute : {recipe::Recompute::kNone, recipe::Recompute::kSelective,
                                   recipe::Recompute::kTokens, recipe::Recompute::kFull}) {
        layout.recompute = recompute;
        const int64_t most = recompute == recipe::Recompute::kNone ? 0 : (12 + stages - 1) / stages - 1;
        for (layout.recompute_layers = 0; layout.recompute_layers <= most; ++layout.recompute_layers)
          all.push_back(layout);
      }
    }
  };
  const auto add_schedules = [&](PlanLayout layout) {
    const int64_t m = layout.micro_batches(64);
    add_memory(layout);
    if (layout.pp == 1) return;
    for (const auto schedule : {PipelineSchedule::kZbH1, PipelineSchedule::kGpipe}) {
      layout.schedule = schedule;
      add_memory(layout);
    }
    layout.schedule = PipelineSchedule::kDualPipe, layout.chunks = 2;
    if (layout.pp % 2 == 0 && m % 2 == 0 && m >= 2 * layout.pp) add_memory(layout);
    for (layout.chunks = 2; layout.pp * layout.chunks <= 12; ++layout.chunks) {
      layout.schedule = PipelineSchedule::kInterleaved;
      if (m % layout.pp == 0) add_memory(layout);
      layout.schedule = PipelineSchedule::kZbV;
      if (layout.chunks == 2) add_memory(layout);
    }
  };
  for (const int64_t tp : {1, 2, 4}) {
    for (const int64_t pp : {1, 2, 4, 8}) {
      if (8 % (tp * pp) != 0) continue;
      const int64_t dp = 8 / (tp * pp);
      for (int64_t micro_batch = 1; dp * micro_batch <= 64; micro_batch *= 2)
        add_schedules({.dp = dp, .tp = tp, .pp = pp, .micro_batch = micro_batch});
    }
  }
  return all;
}

// Every layout of a small cluster tried one by one: the search misses none that is faster, whether memory is
// plenty or short.
TEST(Search, FindsTheFastest) {
  const Work work = work_of(recipe::preset_model("gpt2-124m"), 1024);
  Cluster cluster = a100(8);
  cluster.reserved_bytes = 0;
  const std::vector<PlanLayout> all = every_layout();
  ASSERT_GT(all.size(), 1000u);
  std::set<std::string> fastest_of;
  for (const double gigabytes : {80.0, 3.0, 1.2, 0.8, 0.5}) {
    cluster.device.memory_bytes = gigabytes * 1e9;
    const PlanLayout* fastest = nullptr;
    double least = std::numeric_limits<double>::infinity();
    for (const PlanLayout& layout : all) {
      if (search_memory(work, layout, 64, cluster).total() > cluster.device.memory_bytes) continue;
      const double seconds = evaluate(work, layout, cluster, 64).seconds;
      if (seconds < least) least = seconds, fastest = &layout;
    }
    ASSERT_NE(fastest, nullptr) << gigabytes;
    fastest_of.insert(fastest->text());
    const SearchResult found = search(work, cluster, {.batch = 64});
    ASSERT_FALSE(found.best.empty()) << gigabytes;
    EXPECT_NEAR(found.best.front().seconds / least, 1, 1e-12)
        << gigabytes << " GB: " << found.best.front().layout.text() << " beside " << fastest->text();
  }
  EXPECT_GT(fastest_of.size(), 1u) << "memory decides something";
  EXPECT_TRUE(std::ranges::any_of(fastest_of, [](const std::string& text) {
    return text.find("layers a stage") != std::string::npos;
  })) << "some layers are recomputed and others not";
}

// Of a pipeline that must be: with memory enough for two copies DualPipe waits least; with gpipe a rank waits
// as long as with 1F1B and holds more, so it is tried and never proposed.
TEST(Search, TriesEverySchedule) {
  const Work work = work_of(recipe::preset_model("llama-3-8b"), 4096);
  Cluster cluster = load_cluster("h100", 64);
  const SearchResult found = search(work, cluster, {.batch = 64, .keep = 2000});
  std::set<PipelineSchedule> proposed;
  for (const PlanCandidate& plan : found.best) {
    if (plan.layout.pp > 1) proposed.insert(plan.layout.schedule);
    if (plan.layout.schedule == PipelineSchedule::kDualPipe) {
      EXPECT_EQ(plan.layout.chunks, 2);
      EXPECT_GE(plan.layout.micro_batches(64), 2 * plan.layout.pp);
      EXPECT_EQ(plan.layout.pp % 2, 0);
    }
  }
  using enum PipelineSchedule;
  EXPECT_EQ(proposed, (std::set<PipelineSchedule>{k1F1B, kInterleaved, kZbH1, kZbV, kDualPipe}));
  std::set<std::string> reasons;
  for (const Rejected& row : found.rejected) {
    if (row.layouts > 0) reasons.insert(row.reason);
  }
  EXPECT_TRUE(reasons.contains("1f1b takes as long and holds no more"));
  EXPECT_TRUE(reasons.contains("dualpipe cannot pair its ranks or micro-batches"));
}

// The exchange of states is as the recipe has it, and nothing else is proposed.
TEST(Search, KeepsTheRecipesContextMethods) {
  const Work work = work_of(recipe::preset_model("minimax-text-01"), 65536);
  const recipe::ContextOptions ring{recipe::ContextMethod::kRing, recipe::LinearContextMethod::kRing,
                                    recipe::ContextSplit::kContiguous};
  const SearchResult found = search(work, load_cluster("h100", 512), {.batch = 64, .context = ring});
  ASSERT_FALSE(found.best.empty());
  for (const PlanCandidate& plan : found.best) EXPECT_EQ(plan.layout.context, ring) << plan.layout.text();
}

// Of every preset: no small change of the best layout that fits is faster. Sequences of 4,096 tokens, 1,024 a
// step.
void expect_no_faster_neighbour(const std::string& model, int64_t gpus) {
  const SearchCheck check =
      check_search(model, work_of(recipe::preset_model(model), 4096), load_cluster("h100", gpus), 1024);
  if (!check.best) return;  // it fits on no layout of so few devices
  EXPECT_TRUE(std::isfinite(check.best->seconds));
  EXPECT_FALSE(check.faster) << model << " on " << gpus << ": " << check.best->layout.text() << " takes "
                             << check.best->seconds << " s, with " << check.faster->what << " "
                             << check.faster->candidate.seconds;
}

TEST(Search, NoNeighbourOfTheBestIsFaster) {
  for (const recipe::Preset& preset : recipe::presets()) {
    const bool experts = recipe::preset_model(preset.name).experts > 0;
    for (const int64_t gpus :
         experts ? std::vector<int64_t>{8, 64, 512, 2048} : std::vector<int64_t>{64, 512})
      expect_no_faster_neighbour(std::string(preset.name), gpus);
  }
}

// Experts that lie whole on their ranks and are cut over tensor ranks: no row goes away, and its time is a
// number.
TEST(Search, EveryLayoutTakesAFiniteTime) {
  const Work work = work_of(recipe::preset_model("mixtral-8x7b"), 4096);
  const Cluster cluster = load_cluster("h100", 16);
  for (const auto dispatcher :
       {recipe::Dispatcher::kAllToAll, recipe::Dispatcher::kAllGather, recipe::Dispatcher::kFlex}) {
    for (const int64_t ep : {1, 2, 8}) {
      for (const int64_t etp : {1, 2, 4, 16}) {
        if (16 % (ep * etp) != 0) continue;
        const PlanCandidate plan =
            evaluate(work, {.dp = 4, .tp = 4, .ep = ep, .etp = etp, .dispatcher = dispatcher}, cluster, 64);
        EXPECT_TRUE(std::isfinite(plan.seconds)) << plan.layout.text();
        EXPECT_EQ(plan.parts.expert_exchange > 0, ep * etp > 1) << plan.layout.text();
      }
    }
  }
  Cluster broken = cluster;
  broken.device.memory_rate = std::nan("");
  EXPECT_THROW(evaluate(work, {.dp = 16}, broken, 64), Error) << "no comparison with it";
}

}  // namespace
}  // namespace longhaul::plan
