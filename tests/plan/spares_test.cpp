#include "plan/reliability/spares.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace longhaul::plan {
namespace {

// ByteRobust's table 5 (arXiv 2509.16293), which any probability from 1.165e-3 to 1.25e-3 a machine and day
// gives.
TEST(Spares, ArePublished) {
  for (const double p : {1.165e-3, 1.2e-3, 1.25e-3}) {
    EXPECT_EQ(spares_needed(128, p), 2) << p;
    EXPECT_EQ(spares_needed(256, p), 2) << p;
    EXPECT_EQ(spares_needed(512, p), 3) << p;
    EXPECT_EQ(spares_needed(1024, p), 4) << p;
  }
}

// Beside the sum itself, term by term from the last one up, in long double.
TEST(Spares, AreTheSmallestThatSuffice) {
  for (const int64_t n : {1, 2, 7, 40, 300}) {
    for (const double p : {1e-4, 0.01, 0.2, 0.9}) {
      const auto at_most = [&](int64_t s) {
        long double more = 0;
        for (int64_t k = s + 1; k <= n; ++k) {
          long double term = 1;
          for (int64_t i = 1; i <= k; ++i) term *= static_cast<long double>(n - k + i) / i * p;
          more += term * std::pow(1 - static_cast<long double>(p), n - k);
        }
        return 1 - more;
      };
      const int64_t s = spares_needed(n, p);
      EXPECT_GE(at_most(s), 0.99L - 1e-12L) << n << " " << p;
      EXPECT_TRUE(s == 0 || at_most(s - 1) < 0.99L + 1e-12L) << n << " " << p;
    }
  }
}

TEST(Spares, OfNothing) {
  EXPECT_EQ(spares_needed(0, 0.5), 0);
  EXPECT_EQ(spares_needed(100000, 0), 0);
  EXPECT_GT(spares_needed(100000, 1e-3), 100);
  for (const double wrong : {-0.1, 1.0, std::nan("")}) EXPECT_THROW(spares_needed(4, wrong), Error);
  EXPECT_THROW(spares_needed(-1, 0.1), Error);
  EXPECT_THROW(spares_needed(4, 0.1, 1), Error);
}

}  // namespace
}  // namespace longhaul::plan
