#include "detect/trials/mahalanobis.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace longhaul::detect {
namespace {

TEST(Mahalanobis, EigenvectorsAndScale) {
  const Eigen eigen = symmetric_eigen({2, 1, 0, 1, 2, 0, 0, 0, 5}, 3);
  EXPECT_NEAR(eigen.values[0], 5, 1e-12);
  EXPECT_NEAR(eigen.values[1], 3, 1e-12);
  EXPECT_NEAR(eigen.values[2], 1, 1e-12);
  EXPECT_NEAR(std::abs(eigen.vectors[3]), std::sqrt(0.5), 1e-12);
  // Moments of 0, 0, 1, 1: mean 1/2, variance 1/4, skewness 0, kurtosis 1.
  std::vector<float> rows(4 * 16), out(4 * 16, std::numeric_limits<float>::quiet_NaN());
  for (size_t i = 32; i < 64; ++i) rows[i] = 1;
  window_features({.moments = 4, .window = 4}, rows.data(), 16, out.data());
  EXPECT_NEAR(static_cast<double>(out[0]), 0.5, 1e-6);
  EXPECT_NEAR(static_cast<double>(out[16]), 0.25, 1e-6);
  EXPECT_NEAR(static_cast<double>(out[32]), 0, 1e-5);
  EXPECT_NEAR(static_cast<double>(out[48]), 1, 1e-4);
}

// Of 0, 0, 0, 1: mean 1/4, variance 3/16; third and fourth central moments 3/32 and 21/256, over the
// variance's power 3/2 and its square.
TEST(Mahalanobis, SkewnessAndKurtosisAreInUnitsOfTheDeviation) {
  std::vector<float> rows(4 * 16), out(4 * 16, std::numeric_limits<float>::quiet_NaN());
  for (size_t i = 48; i < 64; ++i) rows[i] = 1;
  window_features({.moments = 4, .window = 4}, rows.data(), 16, out.data());
  EXPECT_NEAR(static_cast<double>(out[0]), 0.25, 1e-6);
  EXPECT_NEAR(static_cast<double>(out[16]), 3.0 / 16, 1e-6);
  EXPECT_NEAR(static_cast<double>(out[32]), 3.0 / 32 / std::pow(3.0 / 16, 1.5), 1e-5);  // 2/√3
  EXPECT_NEAR(static_cast<double>(out[48]), 21.0 / 256 / std::pow(3.0 / 16, 2), 1e-4);  // 7/3
}

}  // namespace
}  // namespace longhaul::detect
