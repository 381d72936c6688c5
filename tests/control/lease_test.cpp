// ctest: label=fast timeout=30
#include "control/node/lease.h"

#include <gtest/gtest.h>

namespace longhaul::control {
namespace {

std::vector<RankBeat> standing_for(std::vector<double> seconds) {
  std::vector<RankBeat> ranks;
  for (const double each : seconds) ranks.push_back({.progress_age_s = each});
  return ranks;
}

TEST(Lease, IsOverForThoseWhoAllStandWithoutADriver) {
  EXPECT_TRUE(lease_is_over(standing_for({70, 61}), 80, 60));
  EXPECT_FALSE(lease_is_over(standing_for({70, 5}), 80, 60)) << "one gets on, the others wait for it";
  EXPECT_FALSE(lease_is_over(standing_for({7000, 6000}), 50, 60)) << "the driver would have said so";
  EXPECT_FALSE(lease_is_over({}, 80, 60));
}

}  // namespace
}  // namespace longhaul::control
