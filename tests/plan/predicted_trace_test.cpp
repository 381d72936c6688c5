// The step that a plan predicts, as a trace: whole for every rank, its parts those of the plan, readable
// JSON.
#include "plan/predicted_trace.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "observe/trace/chrome_trace.h"
#include "observe/trace/time_use.h"
#include "plan/simulated.h"
#include "recipe/architecture/presets.h"

namespace longhaul::plan {
namespace {

using recipe::PipelineSchedule;

struct Planned {
  PlanLayout layout;
  int64_t batch = 0;
  StepParts parts;
  std::vector<observe::RankTrace> ranks;
};

Planned planned(const PlanLayout& layout, int64_t batch) {
  Planned all{.layout = layout, .batch = batch, .parts = {}, .ranks = {}};
  const Cluster cluster = load_cluster("a100", layout.world());
  all.parts = step_parts(work_of(recipe::preset_model("megascale-175b"), 2048), layout, batch, cluster,
                         default_practice(layout));
  all.ranks = predicted_trace(layout, batch, all.parts, ranks_of_stages(layout), 7, 1'000);
  return all;
}

std::vector<Planned> cases() {
  return {planned({.dp = 2, .tp = 8}, 8), planned({.dp = 2, .tp = 4, .pp = 4, .cp = 2}, 16),
          planned({.dp = 2, .tp = 8, .pp = 4, .schedule = PipelineSchedule::kInterleaved, .chunks = 3}, 16),
          planned({.tp = 8, .pp = 4, .schedule = PipelineSchedule::kZbH1}, 8)};
}

double seconds_of(const std::vector<observe::CallSpan>& calls, const std::string& kind_of_group) {
  int64_t ns = 0;
  for (const auto& call : calls) {
    if (call.group.starts_with("planned/" + kind_of_group + " ")) ns += call.end_ns - call.begin_ns;
  }
  return 1e-9 * static_cast<double>(ns);
}

TEST(PredictedTrace, PartsAreThoseOfThePlan) {
  for (const Planned& each : cases()) {
    ASSERT_EQ(each.ranks.size(), static_cast<size_t>(each.layout.pp));
    const double micro_batches = static_cast<double>(each.layout.micro_batches(each.batch)), close = 1e-5;
    for (const observe::RankTrace& rank : each.ranks) {
      ASSERT_EQ(rank.steps.size(), 1u);
      const observe::StepTrace& step = rank.steps[0];
      EXPECT_EQ(step.step, 7);
      EXPECT_EQ(step.begin_ns, 1'000);
      std::map<observe::SpanKind, double> spent;
      for (const observe::Span& span : step.spans)
        spent[span.kind] += 1e-9 * static_cast<double>(span.end_ns - span.begin_ns);
      using enum observe::SpanKind;
      const double head = each.layout.pp == 1 ? each.parts.head : 0;
      EXPECT_NEAR(spent[kForward], micro_batches * each.parts.forward + head / 3, close)
          << each.layout.text();
      EXPECT_NEAR(spent[kBackward] + spent[kBackwardInput] + spent[kBackwardWeight],
                  micro_batches * (each.parts.backward_input + each.parts.backward_weight) + 2 * head / 3,
                  close);
      EXPECT_NEAR(spent[kNumbers], each.parts.head - head, close);
      EXPECT_NEAR(spent[kGradients], each.parts.gradients, close);
      EXPECT_NEAR(spent[kOptimizer], each.parts.update, close);
      EXPECT_NEAR(seconds_of(step.calls, "tp"), each.parts.tensor_exchange, close);
      EXPECT_NEAR(seconds_of(step.calls, "cp"), each.parts.context_exchange, close);
      EXPECT_NEAR(seconds_of(step.calls, "dp"), each.parts.gradients, close);
      const double whole = 1e-9 * static_cast<double>(step.end_ns - step.begin_ns);
      if (each.layout.pp == 1) {
        EXPECT_NEAR(whole, each.parts.total(), close);
      } else {
        EXPECT_NEAR(whole, *simulated_seconds(each.layout, each.layout.micro_batches(each.batch), each.parts),
                    close);
      }
    }
  }
}

// What waits for the file of train.offload, and what every step takes beside all else, with a pipeline and
// without.
TEST(PredictedTrace, FileAndWhatEveryStepTakes) {
  for (const PlanLayout& layout : {PlanLayout{.dp = 2, .tp = 8, .offload = true},
                                   PlanLayout{.dp = 2, .tp = 8, .pp = 4, .offload = true}}) {
    Cluster cluster = load_cluster("a100", layout.world());
    cluster.efficiency.step_s = 0.5;
    const StepParts parts = step_parts(work_of(recipe::preset_model("megascale-175b"), 2048), layout, 16,
                                       cluster, default_practice(layout));
    ASSERT_GT(parts.offload, 0);
    ASSERT_EQ(parts.fixed, 0.5);
    const auto ranks = predicted_trace(layout, 16, parts, ranks_of_stages(layout), 7, 1'000);
    const observe::StepTrace& step = ranks[0].steps.at(0);
    double whole = parts.total(), optimizer = 0;
    if (layout.pp > 1) {
      const auto timeline = simulated(layout, 8, parts);
      ASSERT_TRUE(timeline);
      whole = timeline->makespan + parts.head + parts.gradients + parts.update + parts.offload + parts.fixed;
      EXPECT_NEAR(*simulated_seconds(layout, 8, parts), whole, 1e-9);
    }
    for (const observe::Span& span : step.spans) {
      if (span.kind == observe::SpanKind::kOptimizer)
        optimizer += 1e-9 * static_cast<double>(span.end_ns - span.begin_ns);
    }
    EXPECT_NEAR(1e-9 * static_cast<double>(step.end_ns - step.begin_ns), whole, 1e-5) << layout.text();
    EXPECT_NEAR(optimizer, parts.update + 0.5, 1e-5);
    EXPECT_NEAR(seconds_of(step.calls, "file"), parts.offload, 1e-5);
  }
}

TEST(PredictedTrace, BusyExposedAndIdleTimeSumToTheStep) {
  for (const Planned& each : cases()) {
    for (const observe::TimeUse& use : observe::time_use(each.ranks)) {
      EXPECT_EQ(use.busy_ns + use.exposed_ns + use.idle_ns, use.wall_ns);
      EXPECT_GE(use.idle_ns, 0);
      const double exposed = each.parts.tensor_exchange + each.parts.context_exchange + each.parts.gradients;
      EXPECT_NEAR(1e-9 * static_cast<double>(use.exposed_ns), exposed, 1e-4) << each.layout.text();
      if (each.layout.pp == 1) {
        EXPECT_NEAR(static_cast<double>(use.idle_ns), 0, 1e5);
      } else {
        EXPECT_GT(use.idle_ns, 0) << "the bubble";
      }
    }
  }
}

TEST(PredictedTrace, IsJsonOfTheSameFormAsARecordedStep) {
  const Planned one =
      planned({.dp = 2, .tp = 8, .pp = 4, .schedule = PipelineSchedule::kInterleaved, .chunks = 3}, 16);
  std::string text;
  observe::write_chrome_trace(one.ranks, [&](std::string_view part) { text += part; });
  const auto trace = nlohmann::json::parse(text);
  std::map<int64_t, int64_t> passes;
  std::map<int64_t, std::string> names;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") == "M" && event.at("name") == "process_name")
      names[event.at("pid")] = event.at("args").at("name");
    if (event.at("ph") != "X") continue;
    EXPECT_GE(event.at("dur").get<double>(), 0);
    if (event.at("args").contains("micro_batch")) ++passes[event.at("pid")];
  }
  ASSERT_EQ(passes.size(), 4u);
  for (const auto& [rank, count] : passes)
    EXPECT_EQ(count, 2 * 3 * 8) << "forward and backward of three chunks and eight micro-batches";
  EXPECT_EQ(names.at(observe::kFirstPlannedRank + 16), "rank 16 as planned (pp 1, dp 0, cp 0, tp 0)");
}

}  // namespace
}  // namespace longhaul::plan
