#include "kernels/sampling/loops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"

namespace longhaul::kernels::draw_test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(),
                kNone = -std::numeric_limits<float>::infinity();

std::vector<float> random_logits(int64_t count) {
  const RandomStream random(3, "logits");
  std::vector<float> logits(static_cast<size_t>(count));
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(60 * random.uniform(i) - 70);
  return logits;
}

TEST(Draw, TheLargestLogitAndWhatIsNoNumber) {
  for (const int64_t count : {1, 3, 15, 16, 17, 64, 1000}) {
    for (int64_t at = 0; at < count; at += 7) {
      std::vector<float> logits = random_logits(count);
      logits[static_cast<size_t>(at)] = -1.5f;
      EXPECT_EQ(largest_logit(logits.data(), count), -1.5f)
          << "all negative, so a lane of nothing must not win; " << count << " " << at;
      logits[static_cast<size_t>(at)] = kNan;
      EXPECT_TRUE(std::isnan(largest_logit(logits.data(), count))) << count << " " << at;
    }
    const std::vector<float> none(static_cast<size_t>(count), kNone);
    EXPECT_EQ(largest_logit(none.data(), count), kNone);
  }
}

TEST(Draw, WeightsAndTheirSums) {
  for (const int64_t count : {1, 5, 255, 256, 257, 700}) {
    std::vector<float> logits = random_logits(count);
    logits[0] = -3;
    if (count > 4) logits[3] = kNone;
    const float largest = largest_logit(logits.data(), count);
    std::vector<float> weights(static_cast<size_t>(count) + 1, kNan);  // one more: it must stay
    std::vector<double> sums(static_cast<size_t>((count + kDrawBlock - 1) / kDrawBlock) + 1, kNan);
    draw_weights(logits.data(), count, largest, 0.7, weights.data(), sums.data());
    std::vector<double> expected(sums.size() - 1, 0);
    for (size_t i = 0; i < logits.size(); ++i) {
      const double x = (static_cast<double>(logits[i]) - largest) / static_cast<double>(0.7f),
                   weight = x < -87 ? 0 : std::exp(x);
      // The exponent, of 87 at most, is rounded twice in fp32, and the exponential once.
      EXPECT_NEAR(weights[i], weight, weight * (1 + std::min(-x, 87.0)) * 2.4e-7) << i;
      expected[i / kDrawBlock] += static_cast<double>(weights[i]);
    }
    for (size_t b = 0; b < expected.size(); ++b) EXPECT_NEAR(sums[b], expected[b], expected[b] * 1e-13);
    EXPECT_TRUE(std::isnan(weights.back()) && std::isnan(sums.back()));
  }
}

TEST(Draw, PlacesFollowTheLogits) {
  for (const int64_t count : {2, 15, 16, 17, 700}) {
    std::vector<float> logits = random_logits(count);
    logits[0] = -3, logits[1] = -90;  // the largest and the smallest
    if (count > 2) logits[4] = kNone;
    std::vector<int32_t> places(static_cast<size_t>(count) + 1, -7);  // one more: it must stay
    draw_places(logits.data(), count, -3, places.data());
    for (size_t i = 0; i < logits.size(); ++i) {
      const double exact = logits[i] == kNone
                               ? kDrawPlaces - 1
                               : (-3 - static_cast<double>(logits[i])) / 87 * (kDrawPlaces - 1);
      EXPECT_NEAR(places[i], std::floor(exact), std::abs(exact - std::round(exact)) < 1e-3 ? 1 : 0)
          << i << " of " << count;
    }
    EXPECT_EQ(places.back(), -7);
  }
  const std::vector<float> equal = {5, 5, kNone}, far = {3e38f, -3e38f, 0};
  std::vector<int32_t> places(3);
  draw_places(equal.data(), 3, 5, places.data());
  EXPECT_EQ(places, (std::vector<int32_t>{0, 0, kDrawPlaces - 1}));
  draw_places(far.data(), 3, 3e38f, places.data());
  EXPECT_EQ(places[0], 0);
  EXPECT_EQ(places[1], kDrawPlaces - 1);
}

}  // namespace
}  // namespace longhaul::kernels::draw_test
