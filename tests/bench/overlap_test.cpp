// The bench of overlap runs, its trace adds up, and each row says what it has to. Times are not tested: the machine may be busy.
#include "bench/overlap.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

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
    for (const char* field : {"name", "section", "setting", "compute_s", "communication_s", "wall_s", "busy_s", "idle_s", "processor_s",
                              "waits", "adds_up", "measured", "expected"}) {
      EXPECT_TRUE(json.contains(field)) << field;
    }
    // A link that takes so long was waited for, or hidden behind at least as much computing.
    if (row.section != "pipeline") {
      EXPECT_GE(row.step.wall_s, 0.99 * row.communication_s);
    }
  }
  EXPECT_EQ(sections,
            (std::map<std::string, int64_t>{{"context parallel", 2}, {"data parallel", 6}, {"pipeline", 10}, {"tensor parallel", 4}}));
  EXPECT_NE(table_of(rows).text(false).find("= step"), std::string::npos);
}

}  // namespace
}  // namespace longhaul::bench
