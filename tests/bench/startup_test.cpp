// Ranks that meet at a store cost it a number of operations that grows with them, not with their square.
#include "bench/driver/startup.h"

#include <gtest/gtest.h>

namespace longhaul::bench {
namespace {

// By hand. The meeting: two adds and a set of each rank, one set of what the first recipe of its kind
// consists of and one when all are here; rank 0 waits, reads that nobody asked to stop and n values, and sets
// its word; the others wait and read. Then each counts itself to its machine and asks how many they are
// there; and says three things (where its connections, its memory are, whose memory it reaches), each of
// which one rank collects, for all or for its machine, and each hears.
int64_t operations_by_hand(int64_t ranks, int64_t machines) {
  const int64_t meeting = 3 * ranks + 2 + (2 + ranks + 1) + 2 * (ranks - 1);
  return meeting + 2 * ranks + (3 * ranks + 1) + 2 * (3 * ranks + machines);
}

TEST(Startup, OperationsByHand) {
  for (const int64_t machines : {1, 2, 125})
    EXPECT_EQ(start_operations(8 * machines, 8), operations_by_hand(8 * machines, machines));
  EXPECT_EQ(start_operations(1000, 1000), operations_by_hand(1000, 1)) << "all on one machine";
}

// Nothing of a real start is left out: ranks that are connected, all on this machine, ask as often.
TEST(Startup, RealRanksAskForAsManyOperations) {
  for (const int64_t ranks : {2, 5, 9}) EXPECT_EQ(real_start_operations(ranks), operations_by_hand(ranks, 1));
}

TEST(Startup, TheSlopeOfManyRanks) {
  EXPECT_NEAR(log_slope({{1, 5}, {10, 500}, {100, 50000}}), 2, 1e-12);
  EXPECT_NEAR(log_slope({{2, 6}, {4, 12}, {16, 48}}), 1, 1e-12);
  std::vector<std::pair<double, double>> linear, of_one_machine, barriers;
  for (const int64_t ranks : {64, 512, 2048}) linear.emplace_back(ranks, start_operations(ranks, 8));
  for (const int64_t ranks : {64, 256, 1024})
    of_one_machine.emplace_back(ranks, start_operations(ranks, ranks));
  for (const int64_t ranks : {64, 128, 256}) barriers.emplace_back(ranks, barrier_operations(ranks));
  EXPECT_LE(log_slope(linear), Startup::kMostSlope);
  EXPECT_LE(log_slope(of_one_machine), Startup::kMostSlope);
  EXPECT_GT(log_slope(barriers), 1.7);
}

TEST(Startup, ClientsOfARealStoreMeet) { EXPECT_GT(real_store_milliseconds(32), 0); }

}  // namespace
}  // namespace longhaul::bench
