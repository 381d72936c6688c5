// Known values: those of the specification of SynLogic's training, and definitions computed by hand in
// Python.
#include "posttrain/reinforce/advantages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "posttrain/reinforce/mini_batch.h"

namespace longhaul::posttrain {
namespace {

constexpr double kOfAdvantages = 1e-6;

void expect_numbers(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], kOfAdvantages) << i;
}

std::vector<double> binary(size_t right, size_t all) {
  std::vector<double> rewards(all, 0.0);
  std::fill_n(rewards.begin(), right, 1.0);
  return rewards;
}

TEST(Advantages, OfGrpoAreByTheDeviationOverOneLess) {
  expect_numbers(group_advantages(std::vector<double>{1, 0, 0, 1}, Baseline::kDeviation),
                 {0.8660239, -0.8660239, -0.8660239, 0.8660239});
  const struct {
    size_t right;
    double of_right, of_wrong;
  } rows[] = {{1, 3.749985, -0.249999},
              {4, 1.677047, -0.559016},
              {8, 0.968244, -0.968244},
              {15, 0.249999, -3.749985}};
  for (const auto& row : rows) {
    const auto advantages = group_advantages(binary(row.right, 16), Baseline::kDeviation);
    EXPECT_NEAR(advantages.front(), row.of_right, kOfAdvantages) << row.right;
    EXPECT_NEAR(advantages.back(), row.of_wrong, kOfAdvantages) << row.right;
    EXPECT_NEAR(std::accumulate(advantages.begin(), advantages.end(), 0.0), 0, 1e-12);
  }
}

TEST(Advantages, OfDrGrpoAndRlooAreNotDivided) {
  expect_numbers(group_advantages(std::vector<double>{1, 0, 0, 1}, Baseline::kMean), {0.5, -0.5, -0.5, 0.5});
  // 1 − (0 + 0 + 1)/3, 0 − (1 + 0 + 1)/3
  expect_numbers(group_advantages(std::vector<double>{1, 0, 0, 1}, Baseline::kOthers),
                 {2 / 3.0, -2 / 3.0, -2 / 3.0, 2 / 3.0});
}

TEST(Advantages, OfEqualRewardsAreExactlyNothing) {
  for (const Baseline baseline : {Baseline::kDeviation, Baseline::kMean, Baseline::kOthers}) {
    EXPECT_EQ(group_advantages(std::vector<double>{0.1, 0.1, 0.1}, baseline), std::vector<double>(3, 0.0));
  }
  EXPECT_EQ(group_advantages(std::vector<double>{0.7}, Baseline::kDeviation), std::vector<double>{0.7})
      << "of one answer";
}

TEST(Advantages, OfABatchAreNormalisedByTokens) {
  expect_numbers(batch_normalised(std::vector<double>{1, -1, 0.5}, std::vector<double>{2, 1, 3}),
                 {0.8682431, -2.1085905, 0.1240347});
  expect_numbers(batch_normalised({}, {}), {});
}

TEST(Advantages, AreEstimatedFromValues) {
  const Estimated found = generalised_advantages(std::vector<double>{0.1, -0.2, 0, 1},
                                                 std::vector<double>{0.5, 0.4, 0.3, 0.9}, 0.99, 0.95);
  expect_numbers(found.advantages, {0.3169827982625, 0.341289525, 0.68505, 0.1});
  expect_numbers(found.returns, {0.8169827982625, 0.741289525, 0.98505, 1.0});
}

// δ = 0.3, 0.2 and −0.4; advantages 0.3 + 0.5 · 0.2, 0.2 and −0.4, of mean 1/15 and deviation 0.3399346.
TEST(Estimated, OfAllTokensOfABatch) {
  Answer first, second;
  first.ids = {1, 2}, first.values = {0.5, 0.8}, first.shaped = 1;
  second.ids = {3}, second.values = {0.4};
  std::vector<Group> groups = {{.prompt = {}, .answers = {first}}, {.prompt = {}, .answers = {second}}};
  ReinforceOptions options;
  options.has_critic = true;
  options.lambda = 0.5;
  estimate_advantages(groups, options);
  const auto near = [](double value) { return ::testing::DoubleNear(value, 1e-6); };
  const Answer &one = groups[0].answers[0], &other = groups[1].answers[0];
  EXPECT_THAT(one.returns, ::testing::ElementsAre(near(0.9), near(1.0)));
  EXPECT_THAT(one.advantages, ::testing::ElementsAre(near(0.980581), near(0.392232)));
  EXPECT_THAT(other.returns, ::testing::ElementsAre(near(0)));
  EXPECT_THAT(other.advantages, ::testing::ElementsAre(near(-1.372813)));
  EXPECT_NEAR(one.advantage, 0.6864065, 1e-6);
}

// Every token has its own advantage in the loss: at ratios of 1 the gradient is −A over all tokens alike.
TEST(Estimated, AreThoseOfTheLoss) {
  Group group;
  group.prompt.ids = {5, 6};
  Answer answer;
  answer.ids = {1, 2, 3}, answer.generated = {-1, -1, -1}, answer.advantages = {2, -0.5, 0.25};
  group.answers = {answer};
  auto micro_batches = micro_batches_of({&group}, {.sequence = 8, .rows = 1});
  const Tensor l_t = at::full({4}, -1.0, at::kDouble).requires_grad_();
  loss_of(micro_batches.at(0), {.log_probability_t = l_t}, {}).backward();
  EXPECT_TRUE(at::equal(l_t.grad(), at::tensor({0.0, -2.0, 0.5, -0.25}, at::kDouble))) << l_t.grad();
}

TEST(OverlongPenalty, FallsOverTheCache) {
  EXPECT_EQ(overlong_penalty(16384, 20480, 4096), 0);
  EXPECT_EQ(overlong_penalty(18432, 20480, 4096), -0.5);
  EXPECT_EQ(overlong_penalty(20480, 20480, 4096), -1);
  EXPECT_EQ(overlong_penalty(30000, 20480, 4096), -1);
  EXPECT_EQ(overlong_penalty(20480, 20480, 0), 0) << "without a cache";
}

}  // namespace
}  // namespace longhaul::posttrain
