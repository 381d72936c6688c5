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

}  // namespace
}  // namespace longhaul
