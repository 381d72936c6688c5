#include "bench/plan_check.h"

#include <gtest/gtest.h>

#include <set>

#include "recipe/load.h"

namespace longhaul::bench {
namespace {

TEST(PlanCheck, RowsAreDistinctRecipesOfWhichMostArePredicted) {
  std::set<std::string> names;
  int64_t seen = 0, predicted = 0;
  std::set<int64_t> ranks, ranks_seen;
  for (const PlanCheckRow& row : plan_check_rows()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    (row.seen ? seen : predicted) += 1;
    ranks.insert(row.ranks);
    if (row.seen) ranks_seen.insert(row.ranks);
    std::vector<std::string> overrides = row.overrides;
    overrides.push_back("parallel.ranks=" + std::to_string(row.ranks));
    EXPECT_NO_THROW(recipe::load_defaults(overrides)) << row.name;
  }
  EXPECT_GT(predicted, seen);
  EXPECT_GE(predicted, 20);
  EXPECT_EQ(ranks, (std::set<int64_t>{1, 2, 4}));
  EXPECT_EQ(ranks_seen, ranks) << "constants of each number of ranks";
}

}  // namespace
}  // namespace longhaul::bench
