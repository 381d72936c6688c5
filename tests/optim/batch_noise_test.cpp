#include "optim/batch_noise.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"

namespace longhaul::optim {
namespace {

TEST(BatchNoise, TwoNormsByHand) {
  // |G|² = 4 and S = 96: a batch of 8 has E|G_B|² = 16, one of 32 has 7.
  BatchNoise noise;
  EXPECT_FALSE(noise.critical_batch());
  noise.add({8, 4}, {32, std::sqrt(7)});
  EXPECT_NEAR(*noise.critical_batch(), 24, 1e-12);
  noise.add({8, 4}, {32, std::sqrt(7)});
  EXPECT_NEAR(*noise.critical_batch(), 24, 1e-12);
}

TEST(BatchNoise, NoiseThatHidesTheGradientGivesNothing) {
  BatchNoise noise;
  noise.add({8, 4}, {32, 2});  // a quarter of the square with four times the batch: no gradient is left
  EXPECT_FALSE(noise.critical_batch());
  BatchNoise none;
  none.add({8, 2}, {32, 2});
  EXPECT_FALSE(none.critical_batch());
}

// Gradients of tokens are g + noise of a known covariance, in 50 dimensions: the critical batch is its trace
// over |g|².
TEST(BatchNoise, OfGradientsWithAKnownNoise) {
  constexpr int kDimensions = 50, kSmall = 4, kLarge = 64;
  const RandomStream random(5, "noise");
  BatchNoise noise(1e9);
  uint64_t at = 0;
  double trace = 0, square = 0;
  for (int i = 0; i < kDimensions; ++i) trace += (1 + i % 3) * (1 + i % 3), square += 0.09;
  for (int measured = 0; measured < 400; ++measured) {
    double small = 0, large = 0;
    for (int i = 0; i < kDimensions; ++i) {
      double sum = 0, first = 0;
      for (int token = 0; token < kLarge; ++token) {
        sum += 0.3 + (1 + i % 3) * random.normal(at++);
        if (token == kSmall - 1) first = sum;
      }
      small += std::pow(first / kSmall, 2), large += std::pow(sum / kLarge, 2);
    }
    noise.add({kSmall, std::sqrt(small)}, {kLarge, std::sqrt(large)});
  }
  // Of 400 · 50 squared normals of each size: a standard error of about 1.5 % of either, of which six are
  // allowed.
  EXPECT_NEAR(*noise.critical_batch(), trace / square, 0.09 * trace / square);
}

}  // namespace
}  // namespace longhaul::optim
