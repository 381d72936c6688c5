// The bench of overlap runs, its trace adds up, and each row says what it has to. Times are not tested: the
// machine may be busy.
#include "bench/ranks/overlap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "bench/ranks/coupled_transfers.h"
#include "layout/schedule/schedule_check.h"

namespace longhaul::bench {
namespace {

TEST(Overlap, EveryStepIsBusyOrIdle) {
  const std::vector<OverlapRow> rows = measure_overlap({.tokens = 32, .hidden = 32, .repetitions = 2});
  std::map<std::string, int64_t> sections;
  for (const OverlapRow& row : rows) {
    SCOPED_TRACE(row.section + ", " + row.setting);
    ++sections[row.section];
    EXPECT_TRUE(row.step.adds_up);
    EXPECT_GT(row.step.waits, 0);
    EXPECT_GT(row.step.idle_s, 0);
    EXPECT_GT(row.step.busy_s, 0);
    EXPECT_NEAR(row.step.busy_s + row.step.idle_s, row.step.wall_s, 1e-9);
    EXPECT_LE(row.step.processor_s, row.step.wall_s * 1.01) << "one thread";
    EXPECT_GE(row.expected, 0);
    const nlohmann::ordered_json json = to_json(row);
    for (const char* field :
         {"name", "section", "setting", "compute_s", "communication_s", "wall_s", "busy_s", "idle_s",
          "processor_s", "waits", "adds_up", "measured", "expected"}) {
      EXPECT_TRUE(json.contains(field)) << field;
    }
    // A link that takes so long was waited for, or hidden behind at least as much computing.
    if (row.section != "pipeline" && row.section != "steady state") {
      EXPECT_GE(row.step.wall_s, 0.99 * row.communication_s);
    }
  }
  EXPECT_EQ(sections, (std::map<std::string, int64_t>{{"context parallel", 2},
                                                      {"data parallel", 10},
                                                      {"expert pairs", 3},
                                                      {"pipeline", 20},
                                                      {"steady state", 20},
                                                      {"tensor parallel", 4}}));
  // Two of 2 v collectives are exposed, one where the first values come early; with weights in shares three
  // of 3 v, or two.
  for (const auto& [setting, share] :
       std::map<std::string, double>{{"6 chunks, first values early", 1.0 / 12},
                                     {"6 chunks, late", 2.0 / 12},
                                     {"4 chunks, weights in shares, first values early", 2.0 / 12},
                                     {"4 chunks, weights in shares, late", 3.0 / 12}}) {
    const auto row = std::ranges::find(rows, setting, &OverlapRow::setting);
    ASSERT_NE(row, rows.end()) << setting;
    EXPECT_DOUBLE_EQ(row->expected, share) << setting;
  }
  EXPECT_NE(table_of(rows).text(false).find("= step"), std::string::npos);
}

// What a micro-batch more takes when messages take longer, in forward passes: 3, and the delay where nothing
// hides it.
TEST(Overlap, APipelineIsFlatWhereItHasAPassToSpare) {
  using enum recipe::PipelineSchedule;
  const auto slope = [](const recipe::PipelineOptions& options, bool coupled, double delay) {
    const auto makespan = [&](int64_t micro_batches) {
      layout::Schedule schedule = layout::make_schedule(layout::Pipeline(2, options), micro_batches);
      if (coupled) schedule = with_coupled_transfers(schedule);
      EXPECT_EQ(layout::flaw_of(schedule), "");
      return layout::simulate(schedule, {.transfer = delay}).makespan;
    };
    return (makespan(32) - makespan(16)) / 16;
  };
  for (const double delay : {0.0, 0.25, 0.5, 1.0}) {
    EXPECT_DOUBLE_EQ(slope({.schedule = k1F1B}, false, delay), 3 + delay);
    EXPECT_DOUBLE_EQ(slope({.schedule = k1F1B}, true, delay), 3 + delay);
    // one chunk: 1F1B with twice the forward passes ahead
    EXPECT_DOUBLE_EQ(slope({.schedule = kInterleaved}, false, delay), 3);
  }
  EXPECT_DOUBLE_EQ(slope({.schedule = kInterleaved, .chunks = 2}, false, 0.5), 3);
  EXPECT_DOUBLE_EQ(slope({.schedule = kInterleaved, .chunks = 2}, false, 1.0), 4);
  EXPECT_DOUBLE_EQ(slope({.schedule = kInterleaved}, false, 2.0), 4);
}

}  // namespace
}  // namespace longhaul::bench
