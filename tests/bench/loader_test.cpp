// The bench of redundant loaders: every reader has the right rows, and one that reads for all reads an n-th
// of the bytes. Times are not tested.
#include "bench/loader.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace longhaul::bench {
namespace {

TEST(LoaderBench, OneReaderForAllReadsAnNthOfTheBytes) {
  // 64 tokens of two bytes in each of 8 rows, of 6 steps; readers read two steps ahead of the last one.
  const LoaderRequest request{.readers = 4, .steps = 6, .step_s = 0.001, .read = 0.5};
  const std::vector<LoaderRow> rows = measure_loader(request);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_FALSE(rows[0].shared);
  EXPECT_TRUE(rows[1].shared);
  for (const LoaderRow& row : rows) {
    EXPECT_TRUE(row.same_batches);
    EXPECT_GE(row.wall_s, 6 * request.step_s);
    EXPECT_GE(row.stall_s, 0);
    EXPECT_GE(row.bytes, (row.shared ? 1 : 4) * 6 * 8 * 64 * 2.0);
    EXPECT_LE(row.bytes, (row.shared ? 1 : 4) * (6 + 2) * 8 * 64 * 2.0);
    EXPECT_EQ(to_json(request, row).at("shared"), row.shared);
  }
  EXPECT_NE(table_of(request, rows).text(false).find("once, through memory"), std::string::npos);
}

}  // namespace
}  // namespace longhaul::bench
