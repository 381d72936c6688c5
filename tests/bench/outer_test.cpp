// The bench of outer loops runs, its workers agree, and each row says what it has to. Times are not tested:
// the machine may be busy.
#include "bench/models/outer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace longhaul::bench {
namespace {

TEST(OuterBench, WorkersAgreeAndARowSaysWhatWasMeasured) {
  const OuterRequest request{.workers = {1, 2, 3},
                             .bytes_per_second = 50e6,
                             .layers = 1,
                             .hidden = 32,
                             .vocabulary = 64,
                             .sequence = 32,
                             .batch = 1,
                             .turns = 1,
                             .rounds = 2,
                             .steps = 1,
                             .calls = 2};
  const std::vector<OuterRow> rows = measure_outer(request);
  ASSERT_EQ(rows.size(), 3u);
  for (const OuterRow& row : rows) {
    EXPECT_TRUE(row.same_weights) << row.workers;
    EXPECT_EQ(row.every >= 1, row.workers > 1) << "one worker has no rounds";
    EXPECT_EQ(row.exchange_s > 0, row.workers > 1);
    ASSERT_EQ(row.kept_of_calls.size(), 2u);
    EXPECT_LE(row.kept_of_calls[0], row.kept_of_calls[1]);
    EXPECT_EQ(row.kept, row.kept_of_calls[1]) << "of an even count the later one";
    EXPECT_GT(row.kept, 0);
    EXPECT_GT(row.adamw_kept, 0);
    EXPECT_GE(row.waited, 0);
    EXPECT_LE(row.waited, 1);
    const nlohmann::ordered_json json = to_json(request, row);
    for (const char* field :
         {"name", "workers", "bytes_per_second", "parameters", "tokens_per_step", "dtype", "every", "reason",
          "step_s", "exchange_s", "tokens_per_second", "kept", "adamw_kept", "kept_of_calls",
          "adamw_kept_of_calls", "processes", "waited", "same_weights"}) {
      EXPECT_TRUE(json.contains(field)) << field;
    }
  }
  EXPECT_NE(table_of(request, rows).text(false).find("equal"), std::string::npos);
}

}  // namespace
}  // namespace longhaul::bench
