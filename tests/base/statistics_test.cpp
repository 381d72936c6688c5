#include "base/statistics.h"

#include <gtest/gtest.h>

namespace longhaul {
namespace {

TEST(Statistics, PlacesOfEqualValuesAreShared) {
  EXPECT_EQ(ranks_of({30, 10, 20, 10}), (std::vector<double>{3, 0.5, 2, 0.5}));
  EXPECT_TRUE(ranks_of({}).empty());
}

// By hand: places 0 1 2 3 4 against 0 2 1 4 3: 1 − 6 · 4 / (5 · 24) = 0.8.
TEST(Statistics, RankCorrelation) {
  EXPECT_NEAR(rank_correlation({1, 2, 3, 4, 5}, {1, 30, 2, 500, 40}), 0.8, 1e-12);
  EXPECT_NEAR(rank_correlation({1, 2, 3}, {9, 8, 0}), -1, 1e-12);
  EXPECT_TRUE(std::isnan(rank_correlation({1, 2, 3}, {5, 5, 5})));
}

// Of the six pairs of four values one is the other way round. With a tie in b two of three pairs count there.
TEST(Statistics, PairOrderCorrelation) {
  EXPECT_NEAR(pair_order_correlation({1, 2, 3, 4}, {1, 30, 20, 40}), 4.0 / 6, 1e-12);
  EXPECT_NEAR(pair_order_correlation({1, 2, 3}, {9, 8, 0}), -1, 1e-12);
  EXPECT_NEAR(pair_order_correlation({1, 2, 3}, {7, 7, 9}), 2 / std::sqrt(6.0), 1e-12);
  EXPECT_TRUE(std::isnan(pair_order_correlation({1, 2, 3}, {5, 5, 5})));
}

}  // namespace
}  // namespace longhaul
