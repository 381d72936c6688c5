// Known values of the specification of SynLogic's training (two answers, three losses); where it has none,
// values and numeric derivatives of the definitions, made in Python with what is not differentiated held
// fixed.
#include "posttrain/reinforce/policy_loss.h"

#include <gtest/gtest.h>

#include <cmath>

#include "posttrain/reinforce/advantages.h"

namespace longhaul::posttrain {
namespace {

constexpr double kTolerance = 1e-6;
using Numbers = std::vector<double>;

Tensor row(const Numbers& values) { return at::tensor(values, at::kDouble); }

// Two answers of two and three tokens.
PolicyTokens example(const Numbers& advantages = {1, -0.5}, const Numbers& l = {-0.9, -1.5, -0.7, -1.5, -2}) {
  return {.l_t = row(l),
          .old_t = row({-1, -2, -0.5, -1.5, -3}),
          .advantage_t = row({advantages[0], advantages[0], advantages[1], advantages[1], advantages[1]}),
          .answer_t = at::tensor(std::vector<int64_t>{0, 0, 1, 1, 1})};
}
const Numbers kMild = {-0.95, -1.9, -0.55, -1.45, -2.95};

void expect_near(const Tensor& found, const Numbers& expected) {
  ASSERT_EQ(found.numel(), std::ssize(expected));
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(found[static_cast<int64_t>(i)].item<double>(), expected[i], kTolerance) << "token " << i;
}

double summed(const Tensor& loss_t, Aggregation aggregation) {
  double sum = 0, whole = 0;
  const int64_t lengths[] = {2, 3};
  int64_t token = 0;
  for (const int64_t length : lengths) {
    const Weights weights = token_weights(aggregation, length, 10);
    whole += weights.whole;
    for (int64_t t = 0; t < length; ++t) sum += weights.token * loss_t[token++].item<double>();
  }
  return sum / whole;
}

TEST(PolicyLoss, OfPpo) {
  const TokenLosses losses =
      policy_losses(example(), {.loss = PolicyLoss::kClip, .clip_low = 0.2, .clip_high = 0.2});
  expect_near(losses.ratio_t, {1.105171, 1.648721, 0.818731, 1, 2.718282});
  expect_near(losses.loss_t, {-1.105171, -1.2, 0.409365, 0.5, 1.359141});
  expect_near(losses.gradient_t, {-1.105171, 0, 0.409365, 0.5, 1.359141});
  EXPECT_NEAR(summed(losses.loss_t, Aggregation::kTokens), -0.007333, kTolerance);
  EXPECT_NEAR(summed(losses.loss_t, Aggregation::kAnswers), -0.198208, kTolerance);
  // (−1.105171 − 1.2 + 0.409365 + 0.5 + 1.359141) / (10 · 2)
  EXPECT_NEAR(summed(losses.loss_t, Aggregation::kConstant), -0.036665 / 20, kTolerance);
}

TEST(PolicyLoss, OfDapo) {
  const TokenLosses losses =
      policy_losses(example(), {.loss = PolicyLoss::kClip, .clip_low = 0.2, .clip_high = 0.28});
  expect_near(losses.loss_t, {-1.105171, -1.28, 0.409365, 0.5, 1.359141});
  expect_near(losses.gradient_t, {-1.105171, 0, 0.409365, 0.5, 1.359141});
  EXPECT_NEAR(summed(losses.loss_t, Aggregation::kTokens), -0.023333, kTolerance);
  EXPECT_NEAR(summed(losses.loss_t, Aggregation::kAnswers), -0.218208, kTolerance);
  EXPECT_EQ(losses.clipped_high_t.sum().item<int64_t>(), 1);
  EXPECT_EQ(losses.clipped_low_t.sum().item<int64_t>(), 0);
}

TEST(PolicyLoss, OfCispoKeepsEveryGradient) {
  const TokenLosses losses =
      policy_losses(example(), {.loss = PolicyLoss::kCispo, .clip_low = 1e9, .clip_high = 0.28});
  expect_near(losses.loss_t, {0.994654, 1.92, -0.286556, -0.75, -1.28});
  expect_near(losses.gradient_t, {-1.105171, -1.28, 0.409365, 0.5, 0.64});
  EXPECT_NEAR(summed(losses.loss_t, Aggregation::kTokens), 0.119620, kTolerance);
  EXPECT_NEAR(summed(losses.loss_t, Aggregation::kAnswers), 0.342571, kTolerance);
}

TEST(PolicyLoss, ADualClipBoundsWhatIsBelowTheMean) {
  const TokenLosses losses = policy_losses(
      example(), {.loss = PolicyLoss::kClip, .clip_low = 0.2, .clip_high = 0.2, .dual_clip = 2});
  expect_near(losses.loss_t, {-1.105171, -1.2, 0.409365, 0.5, 1.0});
  expect_near(losses.gradient_t, {-1.105171, 0, 0.409365, 0.5, 0});
}

TEST(PolicyLoss, ARatioAtTheBoundHasItsGradient) {
  PolicyTokens tokens = example();
  tokens.l_t = tokens.old_t.clone();
  // exp(0) is exactly 1, and 1 + 0 is the bound.
  const TokenLosses losses =
      policy_losses(tokens, {.loss = PolicyLoss::kClip, .clip_low = 0, .clip_high = 0});
  expect_near(losses.gradient_t, {-1, -1, 0.5, 0.5, 0.5});
}

TEST(PolicyLoss, OfGspoGoesByTheAnswer) {
  const PolicyLossOptions options{.loss = PolicyLoss::kGspo, .clip_low = 0.2, .clip_high = 0.28};
  const TokenLosses clipped = policy_losses(example(), options);
  expect_near(clipped.loss_t, {-1.28, -1.28, 0.65280259, 0.65280259, 0.65280259});
  // 1/3 of it is the derivative 0.21760086 by each log-probability.
  expect_near(clipped.gradient_t, {0, 0, 3 * 0.21760086, 3 * 0.21760086, 3 * 0.21760086});
  const TokenLosses mild = policy_losses(example({1, -0.5}, kMild), options);
  expect_near(mild.loss_t, {-1.07788415, -1.07788415, 0.50840317, 0.50840317, 0.50840317});
  expect_near(mild.gradient_t,
              {2 * -0.53894208, 2 * -0.53894208, 3 * 0.16946772, 3 * 0.16946772, 3 * 0.16946772});
}

TEST(PolicyLoss, OfEcpoIsBoundedWhereAnswersAreWorse) {
  const PolicyLossOptions options{.loss = PolicyLoss::kEcpo, .clip_low = 0.2, .clip_high = 0.2, .early = 0.1};
  const TokenLosses far = policy_losses(example({1, -0.5}), options);
  expect_near(far.loss_t, {-1.2, -1.2, 0.65, 0.65, 0.65});
  expect_near(far.gradient_t, {0, 0, 3 * 0.65, 3 * 0.65, 3 * 0.65});
  EXPECT_LE(far.ratio_t.max().item<double>(), 1.3 + 1e-12);
  const TokenLosses turned = policy_losses(example({-1, 0.5}), options);
  expect_near(turned.gradient_t, {2 * 1.3, 2 * 1.3, 0, 0, 0});
  const TokenLosses mild = policy_losses(example({1, -0.5}, kMild), options);
  expect_near(mild.loss_t, {-1.16183424, -1.16183424, 0.52563555, 0.52563555, 0.52563555});
  expect_near(mild.gradient_t,
              {2 * -1.16183424, 2 * -1.16183424, 3 * 0.52563555, 3 * 0.52563555, 3 * 0.52563555});
}

TEST(PolicyLoss, OfGbpoVanishesForWhatIsRareAlready) {
  const TokenLosses losses = policy_losses(example(), {.loss = PolicyLoss::kGbpo});
  expect_near(losses.loss_t, {-1, -1, 0.40936538, 0.14360846, 0.07825882});
  expect_near(losses.gradient_t, {-1, -1, 0.40936538, 0.14360846, 0.07825882});
  // A token of probability 1e-4.
  const double l = std::log(1e-4);
  const PolicyTokens rare{row({l}), row({l}), row({-1}), at::tensor(std::vector<int64_t>{0})};
  EXPECT_NEAR(policy_losses(rare, {.loss = PolicyLoss::kGbpo}).gradient_t.item<double>(), 1e-4, 2e-8);
  EXPECT_NEAR(policy_losses(rare, {.loss = PolicyLoss::kClip}).gradient_t.item<double>(), 1, kTolerance);
}

// The first update of a batch: every loss of tokens is REINFORCE.
TEST(PolicyLoss, OfTheFirstUpdateAreAllTheSame) {
  PolicyTokens tokens = example();
  tokens.old_t = tokens.l_t;
  for (const PolicyLoss loss : {PolicyLoss::kClip, PolicyLoss::kCispo, PolicyLoss::kGspo}) {
    const TokenLosses losses =
        policy_losses(tokens, {.loss = loss, .clip_low = 0.2, .clip_high = 0.2, .dual_clip = 3});
    EXPECT_TRUE(losses.gradient_t.equal(-tokens.advantage_t));
    EXPECT_EQ(losses.clipped_high_t.sum().item<int64_t>() + losses.clipped_low_t.sum().item<int64_t>(), 0);
  }
}

TEST(PolicyLoss, RatiosThatWouldOverflowDoNot) {
  PolicyTokens tokens = example();
  tokens.old_t = row({-1000, -2, -0.5, -1.5, -3});
  const TokenLosses losses = policy_losses(tokens, {.loss = PolicyLoss::kClip});
  EXPECT_NEAR(losses.ratio_t[0].item<double>(), std::exp(20.0), 1);
  EXPECT_TRUE(losses.loss_t.isfinite().all().item<bool>());
}

TEST(KlLoss, HasThreeEstimators) {
  // l_ref = l_old of the table.
  expect_near(kl_losses(example().l_t, example().old_t, KlEstimator::kK3).kl_t,
              {0.004837, 0.106531, 0.021403, 0, 0.367879});
  const Tensor l_t = row({-0.7, -1.5, -2}), reference_t = row({-0.5, -1.2, -3});
  const struct {
    KlEstimator estimator;
    Numbers kl, gradient;
  } rows[] = {
      {KlEstimator::kK1, {-0.2, -0.3, 1}, {1, 1, 1}},
      {KlEstimator::kK2, {0.02, 0.045, 0.5}, {-0.2, -0.3, 1}},
      {KlEstimator::kK3, {0.02140276, 0.04985881, 0.36787944}, {-0.22140276, -0.34985881, 0.63212056}}};
  for (const auto& each : rows) {
    const TokenKl found = kl_losses(l_t, reference_t, each.estimator);
    expect_near(found.kl_t, each.kl);
    expect_near(found.gradient_t, each.gradient);
  }
  const TokenKl far = kl_losses(row({-5, -50}), row({-1, -1}), KlEstimator::kK3);
  expect_near(far.kl_t, {10, 10});
  expect_near(far.gradient_t, {0, 0});
}

TEST(WithGradient, IsTheValueAndPassesTheGradientOn) {
  const Tensor l_t = row({-0.5, -1.5}).requires_grad_(true);
  const Tensor loss_t = with_gradient(row({3, 4}), row({0.25, -2}), l_t);
  expect_near(loss_t.detach(), {3, 4});
  loss_t.sum().backward();
  expect_near(l_t.grad(), {0.25, -2});
}

TEST(ValueLoss, TakesTheWorseOfBothAndItsGradient) {
  const ValueLosses losses =
      value_losses(row({0.5, 0.5, 0.25, 0.9}), row({0.2, 0.2, 0.2, 0.2}), row({1, 0, 1, 0.35}), 0.2);
  expect_near(losses.loss_t, {0.18, 0.125, 0.28125, 0.15125});
  expect_near(losses.gradient_t, {0, 0.5, -0.75, 0.55});
}

}  // namespace
}  // namespace longhaul::posttrain
