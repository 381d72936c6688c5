// Losses of preference learning: values by hand, the formulas once more in plain numbers, gradients beside
// central differences, and what TRL gives for the same numbers (tests/peer/preference_losses.py).
#include "posttrain/preference/losses.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace longhaul::posttrain {
namespace {

using enum PreferenceLoss;

Tensor doubles(const std::vector<double>& values) { return at::tensor(values, at::kDouble); }

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

// Four pairs: sums of log-probabilities, and numbers of tokens.
const std::vector<double> kChosen = {-12.5, -3.25, -40, -0.75}, kRejected = {-14, -2.5, -38.5, -9};
const std::vector<double> kChosenReference = {-13, -3, -41.5, -1},
                          kRejectedReference = {-13.5, -3, -38, -7.5};
const std::vector<double> kChosenTokens = {5, 2, 16, 3}, kRejectedTokens = {7, 2, 12, 4};

AnswerScores chosen() { return {doubles(kChosen), doubles(kChosenReference), doubles(kChosenTokens)}; }
AnswerScores rejected() {
  return {doubles(kRejected), doubles(kRejectedReference), doubles(kRejectedTokens)};
}

void expect_each(const Tensor& found, const std::function<double(size_t)>& expected) {
  ASSERT_EQ(found.numel(), 4);
  for (size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(found[static_cast<int64_t>(i)].item<double>(), expected(i), 1e-12) << i;
}

double difference(size_t i) {
  return (kChosen[i] - kChosenReference[i]) - (kRejected[i] - kRejectedReference[i]);
}
double mean_chosen(size_t i) { return kChosen[i] / kChosenTokens[i]; }
double mean_rejected(size_t i) { return kRejected[i] / kRejectedTokens[i]; }

// h = 1, −0.75, 2, 1.75.
TEST(PreferenceLosses, DpoByHand) {
  EXPECT_EQ(difference(0), 1);
  const Tensor loss = pair_loss(kDpo, chosen(), rejected(), {.beta = 0.5});
  EXPECT_NEAR(loss[0].item<double>(), 0.47407698418010663, 1e-15);  // log(1 + e^−0.5)
  EXPECT_NEAR(loss[1].item<double>(), 0.8981232641398401, 1e-15);   // log(1 + e^0.375)
  expect_each(pair_loss(kDpo, chosen(), rejected(), {.beta = 0.3, .label_smoothing = 0.1}), [](size_t i) {
    return -0.9 * std::log(logistic(0.3 * difference(i))) - 0.1 * std::log(logistic(-0.3 * difference(i)));
  });
  expect_each(pair_loss(kDpo, chosen(), rejected(), {.beta = 2, .per_token = true}), [](size_t i) {
    const double h = (kChosen[i] - kChosenReference[i]) / kChosenTokens[i] -
                     (kRejected[i] - kRejectedReference[i]) / kRejectedTokens[i];
    return -std::log(logistic(2 * h));
  });
}

TEST(PreferenceLosses, PolicyThatIsTheReferenceHasLogTwo) {
  AnswerScores same = chosen(), other = rejected();
  same.reference_n = same.policy_n;
  other.reference_n = other.policy_n;
  const Tensor loss = pair_loss(kDpo, same, other, {.beta = 0.7});
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(loss[i].item<double>(), std::log(2.0));
}

TEST(PreferenceLosses, IpoByHand) {
  const Tensor loss = pair_loss(kIpo, chosen(), rejected(), {.beta = 0.25});
  EXPECT_EQ(loss[0].item<double>(), 1);       // (1 − 2)²
  EXPECT_EQ(loss[1].item<double>(), 7.5625);  // (−0.75 − 2)²
  EXPECT_EQ(loss[2].item<double>(), 0);
  const Tensor means = pair_loss(kIpo, chosen(), rejected(), {.beta = 0.25, .per_token = true});
  EXPECT_NEAR(means[0].item<double>(), std::pow(0.5 / 5 + 0.5 / 7 - 2, 2), 1e-14);
}

TEST(PreferenceLosses, SimpoByHand) {
  expect_each(pair_loss(kSimpo, chosen(), rejected(), {.beta = 2, .label_smoothing = 0.2, .gamma = 0.3}),
              [](size_t i) {
                const double x = 2 * (mean_chosen(i) - mean_rejected(i)) - 0.3;
                return -0.8 * std::log(logistic(x)) - 0.2 * std::log(logistic(-x));
              });
}

TEST(PreferenceLosses, OrpoByHand) {
  expect_each(pair_loss(kOrpo, chosen(), rejected(), {.beta = 0.1}), [](size_t i) {
    const double c = std::exp(mean_chosen(i)), r = std::exp(mean_rejected(i));
    return -mean_chosen(i) - 0.1 * std::log(logistic(std::log(c / (1 - c)) - std::log(r / (1 - r))));
  });
}

// An answer of which the model is certain has odds without end.
TEST(PreferenceLosses, OrpoOfACertainAnswerIsFinite) {
  const AnswerScores certain = {doubles({0}), {}, doubles({3})}, other = {doubles({-1}), {}, doubles({3})};
  for (const bool first : {true, false}) {
    const Tensor loss = pair_loss(kOrpo, first ? certain : other, first ? other : certain, {});
    EXPECT_TRUE(std::isfinite(loss.item<double>())) << first;
  }
}

TEST(PreferenceLosses, KtoByHand) {
  const LossNumbers numbers{.beta = 0.4, .desirable_weight = 1.5, .undesirable_weight = 0.75};
  const std::vector<double> good = {1, 0, 0, 1};
  expect_each(kto_loss(chosen(), doubles(good), 0.6, numbers), [&](size_t i) {
    const double r = kChosen[i] - kChosenReference[i];
    return good[i] == 1 ? 1.5 * (1 - logistic(0.4 * (r - 0.6))) : 0.75 * (1 - logistic(0.4 * (0.6 - r)));
  });
  EXPECT_DOUBLE_EQ(mismatched_divergence(doubles({-3, -5}), doubles({-4, -4.5})), 0.25);
  EXPECT_EQ(mismatched_divergence(doubles({-3}), doubles({-2})), 0) << "a divergence is not negative";
  EXPECT_EQ(mismatched_divergence(doubles({}), doubles({})), 0);
}

TEST(PreferenceLosses, RewardsWeighAnswers) {
  const std::vector<double> weights = reward_weights({1, 0, 2}, 0.5, 20);
  EXPECT_DOUBLE_EQ(weights[0], 1);
  EXPECT_DOUBLE_EQ(weights[1], std::exp(-2.0));
  EXPECT_DOUBLE_EQ(weights[2], std::exp(2.0));
  EXPECT_EQ(reward_weights({10, 0}, 0.5, 20)[0], 20) << "no answer outweighs all others";
  EXPECT_EQ(reward_weights({7}, 0.5, 20)[0], 1);
  const Tensor loss = weighted_loss(chosen(), doubles({2, 1, 0, 0.5}));
  EXPECT_EQ(loss[0].item<double>(), 25);
  EXPECT_EQ(loss[2].item<double>(), 0);
}

TEST(PreferenceLosses, BradleyTerryByHand) {
  const Tensor loss = bradley_terry_loss(doubles({1, -2}), doubles({0.5, 1}), 0.25);
  EXPECT_NEAR(loss[0].item<double>(), std::log(1 + std::exp(-0.25)), 1e-15);
  EXPECT_NEAR(loss[1].item<double>(), std::log(1 + std::exp(3.25)), 1e-14);
}

TEST(PreferenceLosses, ImplicitRewardsAreWhatTheLossCompares) {
  const Tensor by_ratio = implicit_rewards(kDpo, chosen(), {.beta = 0.5});
  EXPECT_EQ(by_ratio[0].item<double>(), 0.25);
  EXPECT_EQ(implicit_rewards(kDpo, chosen(), {.beta = 0.5, .per_token = true})[0].item<double>(), 0.05);
  EXPECT_EQ(implicit_rewards(kSimpo, chosen(), {.beta = 2})[0].item<double>(), -5);
}

class PreferenceGradients : public ::testing::TestWithParam<PreferenceLoss> {};

// Of the sum over pairs, in each log-probability of the policy.
TEST_P(PreferenceGradients, AreThoseOfCentralDifferences) {
  const LossNumbers numbers{
      .beta = 0.35, .label_smoothing = 0.1, .gamma = 0.4, .desirable_weight = 1.2, .undesirable_weight = 0.8};
  const auto loss_of = [&](const Tensor& c, const Tensor& r) {
    AnswerScores first = chosen(), second = rejected();
    first.policy_n = c;
    second.policy_n = r;
    if (compares_two(GetParam())) return pair_loss(GetParam(), first, second, numbers).sum();
    if (GetParam() != kKto)
      return weighted_loss(first, doubles({2, 1, 0.5, 3})).sum() +
             weighted_loss(second, doubles({1, 1, 2, 1})).sum();
    return kto_loss(first, doubles({1, 0, 1, 1}), 0.2, numbers).sum() +
           kto_loss(second, doubles({0, 0, 1, 0}), 0.2, numbers).sum();
  };
  Tensor c = doubles(kChosen).requires_grad_(true), r = doubles(kRejected).requires_grad_(true);
  loss_of(c, r).backward();
  constexpr double kStep = 1e-6;
  for (int64_t i = 0; i < 4; ++i) {
    for (const bool first : {true, false}) {
      const auto at_place = [&](double by) {
        Tensor moved_c = doubles(kChosen), moved_r = doubles(kRejected);
        (first ? moved_c : moved_r)[i] += by;
        return loss_of(moved_c, moved_r).item<double>();
      };
      const double slope = (at_place(kStep) - at_place(-kStep)) / (2 * kStep);
      EXPECT_NEAR((first ? c : r).grad()[i].item<double>(), slope, 1e-8) << i << first;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Each, PreferenceGradients,
                         ::testing::Values(kDpo, kIpo, kKto, kOrpo, kSimpo, kRewardWeighted),
                         [](const auto& of) {
                           return std::string(names_of(PreferenceLoss{})[static_cast<size_t>(of.param)]);
                         });

}  // namespace
}  // namespace longhaul::posttrain
