// Sinkhorn's iteration against the loops of its definition, closed forms, and logits that a plain exponential
// does not bear.
#include "kernels/experts/sinkhorn.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "support/threads.h"

namespace longhaul::kernels::sinkhorn_test {
namespace {

using namespace longhaul::testing;

// docs/sources/moe-parallel-folding.md §4.2 as it is written: c is the exponential itself.
std::vector<std::vector<double>> by_definition(const Tensor& logits) {
  const auto tokens = static_cast<size_t>(logits.size(0)), experts = static_cast<size_t>(logits.size(1));
  std::vector<std::vector<double>> c(tokens, std::vector<double>(experts));
  for (size_t t = 0; t < tokens; ++t) {
    for (size_t e = 0; e < experts; ++e)
      c[t][e] = std::exp(logits[static_cast<int64_t>(t)][static_cast<int64_t>(e)].item<double>());
  }
  std::vector<double> d0(tokens, 1), d1(experts, 1);
  for (double error = 1; error > 1e-4;) {
    for (size_t t = 0; t < tokens; ++t) {
      double sum = 0;
      for (size_t e = 0; e < experts; ++e) sum += d1[e] * c[t][e];
      d0[t] = 1 / static_cast<double>(tokens) / (sum + 1e-8);
    }
    error = 0;
    for (size_t e = 0; e < experts; ++e) {
      double sum = 0;
      for (size_t t = 0; t < tokens; ++t) sum += d0[t] * c[t][e];
      const double next = 1 / static_cast<double>(experts) / (sum + 1e-8);
      error += std::abs(next - d1[e]) / static_cast<double>(experts);
      d1[e] = next;
    }
  }
  for (size_t t = 0; t < tokens; ++t) {
    for (size_t e = 0; e < experts; ++e) c[t][e] *= d0[t] * d1[e];
  }
  return c;
}

// Logits of a size of 1: the 1e-8 beside a sum is then next to nothing, whether of the exponentials or of
// those relative to the largest.
TEST(Sinkhorn, EqualsItsDefinition) {
  for (const auto& [tokens, experts] :
       {std::pair<int64_t, int64_t>{1, 1}, {1, 5}, {7, 3}, {40, 8}, {300, 5}, {3, 33}}) {
    const Tensor logits = random_tensor({tokens, experts}, 3);
    const Tensor found = sinkhorn(logits);
    const auto expected = by_definition(logits);
    ASSERT_EQ(found.scalar_type(), at::kDouble);
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t e = 0; e < experts; ++e) {
        const double value = expected[static_cast<size_t>(t)][static_cast<size_t>(e)];
        EXPECT_NEAR(found[t][e].item<double>(), value, 2e-7 * value)
            << tokens << "x" << experts << " at " << t << ", " << e;
      }
    }
  }
}

// Two by two: rows and columns of ½, and the odds ratio stays: p = ½ √(ad) / (√(ad) + √(bc)).
TEST(Sinkhorn, KnownValueOfTwoByTwo) {
  const Tensor found = sinkhorn(at::log(at::tensor({4.0, 1.0, 2.0, 3.0}, at::kDouble).view({2, 2})));
  const double p = 0.5 * std::sqrt(12.0) / (std::sqrt(12.0) + std::sqrt(2.0));
  EXPECT_NEAR(found[0][0].item<double>(), p, 1e-4);
  EXPECT_NEAR(found[1][1].item<double>(), p, 1e-4);
  EXPECT_NEAR(found[0][1].item<double>(), 0.5 - p, 1e-4);
}

// One expert is everybody's darling, by far; every column has its share all the same, and who wants it most
// comes first in it.
TEST(Sinkhorn, EveryExpertGetsItsShare) {
  constexpr int64_t kTokens = 60, kExperts = 6;
  Tensor logits = random_tensor({kTokens, kExperts}, 5);
  logits.select(1, 2).add_(5);
  const Tensor found = sinkhorn(logits);
  EXPECT_LT(found.sum(0).sub(1.0 / kExperts).abs().max().item<double>(), 1e-5);
  EXPECT_LT(found.sum(1).sub(1.0 / kTokens).abs().max().item<double>(), 0.1 / kTokens);
  EXPECT_TRUE(logits.argmax(1).eq(2).sum().item<int64_t>() > kTokens / 2);
  EXPECT_LT(found.argmax(1).eq(2).sum().item<int64_t>(), kTokens / 2);
}

TEST(Sinkhorn, LogitsOfAnySize) {
  const Tensor logits = random_tensor({20, 4}, 6);
  // of a row: nothing changes
  const Tensor shifted = logits + at::arange(20, at::kDouble).mul(1000).sub(9000).unsqueeze(1);
  EXPECT_LT(relative_error(sinkhorn(shifted), sinkhorn(logits)), 1e-9);
  EXPECT_TRUE(sinkhorn(logits.mul(1e4)).isfinite().all().item<bool>());
  EXPECT_LT(relative_error(sinkhorn(at::zeros({3, 4})), at::full({3, 4}, 1.0 / 12, at::kDouble)), 1e-7);
  EXPECT_EQ(sinkhorn(at::empty({0, 4})).numel(), 0);
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const Tensor rounded = logits.to(type);
    EXPECT_TRUE(sinkhorn(rounded).equal(sinkhorn(rounded.to(at::kDouble))));
  }
  EXPECT_TRUE(sinkhorn(at::empty({3, 4}, at::TensorOptions(at::kMeta))).is_meta());
  EXPECT_THROW(sinkhorn(at::empty({3})), Error);
  EXPECT_THROW(sinkhorn(at::empty({3, 4}, at::kLong)), Error);
}

TEST(Sinkhorn, DoesNotDependOnThreads) {
  const Tensor logits = random_tensor({1000, 12}, 7).mul(3);
  expect_same_for_all_threads([&] { return std::vector<Tensor>{sinkhorn(logits)}; });
}

}  // namespace
}  // namespace longhaul::kernels::sinkhorn_test
