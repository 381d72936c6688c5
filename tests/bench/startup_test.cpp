// Ranks that meet at a store cost it a number of operations that grows with them, not with their square.
#include "bench/startup.h"

#include <gtest/gtest.h>

namespace longhaul::bench {
namespace {

// By hand: set and add of each rank, one set when all are here; rank 0 waits, reads n values and sets its word; the others wait and read.
TEST(Startup, OperationsByHand) {
  for (const int64_t ranks : {2, 64, 1000}) EXPECT_EQ(meeting_operations(ranks), 2 * ranks + 1 + 1 + ranks + 1 + 2 * (ranks - 1));
}

TEST(Startup, TheSlopeOfManyRanks) {
  EXPECT_NEAR(log_slope({{1, 5}, {10, 500}, {100, 50000}}), 2, 1e-12);
  EXPECT_NEAR(log_slope({{2, 6}, {4, 12}, {16, 48}}), 1, 1e-12);
  std::vector<std::pair<double, double>> linear, barriers;
  for (const int64_t ranks : {64, 512, 10240}) linear.emplace_back(ranks, meeting_operations(ranks));
  for (const int64_t ranks : {64, 128, 256}) barriers.emplace_back(ranks, barrier_operations(ranks));
  EXPECT_LE(log_slope(linear), Startup::kMostSlope);
  EXPECT_GT(log_slope(barriers), 1.7);
}

TEST(Startup, ClientsOfARealStoreMeet) { EXPECT_GT(real_store_milliseconds(32), 0); }

}  // namespace
}  // namespace longhaul::bench
