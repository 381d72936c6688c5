#include "bench/operators/product_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul::bench {
namespace {

using ::testing::ElementsAre;

Tensor whole(int64_t rows, int64_t columns, int64_t seed) {
  return (at::arange(rows * columns, at::kLong) * 7919 + seed).remainder(17).sub(8).view({rows, columns});
}

// Beside three loops.
Tensor by_hand(const Tensor& a, const Tensor& b) {
  const Tensor c = at::zeros({a.size(0), b.size(0)}, at::kLong);
  const auto x = a.accessor<int64_t, 2>(), y = b.accessor<int64_t, 2>();
  auto z = c.accessor<int64_t, 2>();
  for (int64_t i = 0; i < c.size(0); ++i) {
    for (int64_t j = 0; j < c.size(1); ++j) {
      for (int64_t k = 0; k < a.size(1); ++k) z[i][j] += x[i][k] * y[j][k];
    }
  }
  return c;
}

TEST(ProductCheck, EveryWrongElementIsSeenAndItsRowNamed) {
  const Tensor a = whole(13, 29, 3), b = whole(7, 29, 5), right = by_hand(a, b).to(at::kDouble);
  EXPECT_TRUE(wrong_rows(a, b, right).empty());
  EXPECT_TRUE(wrong_rows(a.to(at::kFloat), b.to(at::kFloat), right.to(at::kFloat)).empty());
  for (int64_t i = 0; i < 13; ++i) {
    for (int64_t j = 0; j < 7; ++j) {
      for (const double off : {1.0, -1.0, 0.5, 1e12, std::numeric_limits<double>::quiet_NaN(),
                               std::numeric_limits<double>::infinity()}) {
        const Tensor wrong = right.clone();
        wrong[i][j] += off;
        ASSERT_THAT(wrong_rows(a, b, wrong), ElementsAre(i)) << j << " " << off;
      }
    }
  }
}

TEST(ProductCheck, PassesHereAndFindsWhatIsPlanted) {
  const auto good = product_check({});
  EXPECT_EQ(good.status, control::CheckStatus::kPassed) << good.found;
  for (const char* rate : {"fp32_flops_per_second", "bf16_flops_per_second", "fp64_flops_per_second"})
    EXPECT_GT(good.values.at(rate), 1e8);
  const auto bad = product_check({.plant = true});
  EXPECT_EQ(bad.status, control::CheckStatus::kFailed);
  EXPECT_EQ(good.fingerprints, bad.fingerprints) << "the same bits each time";
}

}  // namespace
}  // namespace longhaul::bench
