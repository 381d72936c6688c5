#include "generate/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "base/random.h"

namespace longhaul::generate {
namespace {

std::vector<double> frequencies(const std::vector<float>& logits, SamplerSettings settings,
                                int64_t draws = 40000) {
  std::vector<double> counts(logits.size(), 0);
  for (int64_t i = 0; i < draws; ++i)
    counts[static_cast<size_t>(next_token(logits, settings, static_cast<uint64_t>(i)))] +=
        1.0 / static_cast<double>(draws);
  return counts;
}

// Five standard deviations of a frequency over 40,000 draws are at most 5 · 0.5 / 200.
constexpr double kTolerance = 0.0125;

void expect_distribution(const std::vector<double>& found, std::vector<double> weights) {
  double total = 0;
  for (const double weight : weights) total += weight;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0) {
      EXPECT_EQ(found[i], 0) << i;
    } else {
      EXPECT_NEAR(found[i], weights[i] / total, kTolerance) << i;
    }
  }
}

std::vector<float> logs(const std::vector<double>& weights) {
  std::vector<float> logits;
  for (const double weight : weights) logits.push_back(static_cast<float>(std::log(weight)));
  return logits;
}

TEST(Sampler, DrawsTheSoftmax) {
  expect_distribution(frequencies(logs({1, 5, 2, 0, 4}), {}), {1, 5, 2, 0, 4});
}

TEST(Sampler, TemperatureDividesTheLogits) {
  expect_distribution(frequencies(logs({1, 5, 2, 4}), {.temperature = 0.5}), {1, 25, 4, 16});
  expect_distribution(frequencies(logs({1, 25, 4, 16}), {.temperature = 2}), {1, 5, 2, 4});
}

TEST(Sampler, TopKKeepsTheLikeliest) {
  expect_distribution(frequencies(logs({1, 5, 2, 4}), {.top_k = 2}), {0, 5, 0, 4});
  expect_distribution(frequencies(logs({1, 5, 2, 4}), {.top_k = 100}), {1, 5, 2, 4});
  expect_distribution(frequencies(logs({3, 3, 3}), {.top_k = 2}), {3, 3, 0});  // ties: the lowest ids stay
  expect_distribution(frequencies(logs({1, 5, 2, 4}), {.top_k = 1}), {0, 1, 0, 0});
}

TEST(Sampler, TopPKeepsTheShortestSufficientRun) {
  const auto logits = logs({0.05, 0.5, 0.15, 0.3});
  expect_distribution(frequencies(logits, {.top_p = 0.45}), {0, 1, 0, 0});
  expect_distribution(frequencies(logits, {.top_p = 0.7}), {0, 5, 0, 3});
  expect_distribution(frequencies(logits, {.top_p = 0.9}), {0, 50, 15, 30});
  expect_distribution(frequencies(logits, {.top_p = 1e-9}), {0, 1, 0, 0});  // always at least one
}

// Top-p counts probabilities among what top-k left: 5/8 of {5, 3} is already 0.6.
TEST(Sampler, TopPFollowsTopK) {
  expect_distribution(frequencies(logs({0.05, 0.5, 0.15, 0.3}), {.top_k = 2, .top_p = 0.6}), {0, 1, 0, 0});
}

// Temperature first: of 1, 5, 2, 4 it makes 1, 25, 4, 16 (of 46), or 1, √5, √2, 2 (of 6.65); top-p counts
// those.
TEST(Sampler, TemperatureChangesWhatTopPKeeps) {
  const auto logits = logs({1, 5, 2, 4});
  expect_distribution(frequencies(logits, {.temperature = 0.5, .top_p = 0.8}), {0, 25, 0, 16});
  expect_distribution(frequencies(logits, {.temperature = 2, .top_p = 0.8}),
                      {0, std::sqrt(5), std::sqrt(2), 2});
  expect_distribution(frequencies(logits, {.temperature = 0.5, .top_k = 3, .top_p = 0.95}), {0, 25, 4, 16});
}

TEST(Sampler, TemperatureZeroIsTheLikeliestWithTheLowestId) {
  const std::vector<float> logits = {-3, 7, 2, 7};
  for (uint64_t i = 0; i < 20; ++i) EXPECT_EQ(next_token(logits, {.temperature = 0, .seed = i}, i), 1);
  EXPECT_EQ(next_token(logits, {.temperature = 1e-300}, 0) % 2, 1) << "no overflow of a tiny temperature";
}

TEST(Sampler, ExtremeLogits) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  const std::vector<float> masked = {kNone, 3e38f, kNone, -3e38f};
  for (uint64_t i = 0; i < 50; ++i) EXPECT_EQ(next_token(masked, {.top_p = 0.99}, i), 1);
  EXPECT_EQ(next_token(std::vector<float>{4}, {}, 0), 0);
}

TEST(Sampler, SameSeedSameTokens) {
  const auto logits = logs({1, 1, 1, 1, 1, 1, 1, 1});
  std::vector<int64_t> first, again, other;
  for (uint64_t i = 0; i < 64; ++i) {
    first.push_back(next_token(logits, {.seed = 1}, i));
    again.push_back(next_token(logits, {.seed = 1}, i));
    other.push_back(next_token(logits, {.seed = 2}, i));
  }
  EXPECT_EQ(first, again);
  EXPECT_NE(first, other);
}

TEST(Sampler, RefusesWhatIsOutOfRange) {
  const auto code = [](const std::vector<float>& logits, const SamplerSettings& settings) {
    try {
      next_token(logits, settings, 0);
    } catch (const Error& error) {
      return error.code();
    }
    return ExitCode::kDone;
  };
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(),
                  kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> good = {1, 2};
  EXPECT_EQ(code(good, {}), ExitCode::kDone);
  EXPECT_EQ(code(good, {.temperature = -1}), ExitCode::kUsage);
  EXPECT_EQ(code(good, {.temperature = kNan}), ExitCode::kUsage);
  EXPECT_EQ(code(good, {.top_k = -1}), ExitCode::kUsage);
  EXPECT_EQ(code(good, {.top_p = 0}), ExitCode::kUsage);
  EXPECT_EQ(code(good, {.top_p = 1.5}), ExitCode::kUsage);
  EXPECT_EQ(code({1, kNan, 3}, {}), ExitCode::kNumeric);
  EXPECT_EQ(code({1, kInfinity}, {.temperature = 0}), ExitCode::kNumeric);
  EXPECT_EQ(code({-kInfinity, -kInfinity}, {}), ExitCode::kNumeric);
  EXPECT_EQ(code({}, {}), ExitCode::kNumeric);
}

// The definition in a sort: kept are the likeliest until their weights reach p.
int64_t by_sorting(const std::vector<float>& logits, const SamplerSettings& settings, uint64_t index) {
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  std::vector<double> weights;
  for (const size_t i : order)
    weights.push_back(std::exp((static_cast<double>(logits[i]) - logits[order[0]]) / settings.temperature));
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  double kept = 0;
  size_t count = 0;
  while (kept < settings.top_p * total) kept += weights[count++];
  const double target = RandomStream(settings.seed, "generate").uniform(index) * kept;
  double sum = 0;
  for (size_t i = 0; i < count; ++i) {
    if (sum += weights[i]; target < sum) return static_cast<int64_t>(order[i]);
  }
  return static_cast<int64_t>(order[count - 1]);
}

// Without bounds: the first token, by its id, with which the sum of the weights passes the drawn share of
// all.
TEST(Sampler, ADrawFromAllIsThatOfASum) {
  const RandomStream random(2, "logits");
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  for (const size_t count : {1, 2, 255, 256, 257, 1000, 8192}) {
    for (uint64_t draw = 0; draw < 60; ++draw) {
      std::vector<float> logits(count);
      for (size_t i = 0; i < count; ++i) logits[i] = static_cast<float>(30 * random.uniform(draw * 8192 + i));
      if (draw % 3 == 1 && count > 300) std::fill(logits.begin() + 10, logits.end() - 20, kNone);
      if (draw % 3 == 2)
        std::fill(logits.begin() + static_cast<std::ptrdiff_t>(count / 2 + 1), logits.end(), kNone);
      const SamplerSettings settings{.temperature = 0.5 + static_cast<double>(draw % 4), .seed = draw};
      const double largest = *std::ranges::max_element(logits);
      std::vector<double> sums;
      double sum = 0;
      for (const float x : logits)
        sums.push_back(sum += std::exp((static_cast<double>(x) - largest) / settings.temperature));
      const double target = RandomStream(settings.seed, "generate").uniform(draw) * sum;
      const auto expected = std::ranges::upper_bound(sums, target) - sums.begin();
      EXPECT_EQ(next_token(logits, settings, draw), expected) << count << " " << draw;
    }
  }
}

TEST(Sampler, TopPIsThatOfASort) {
  const RandomStream random(1, "logits");
  for (const double temperature : {0.1, 0.8, 3.0}) {
    for (const double top_p : {0.1, 0.9, 0.999}) {
      for (uint64_t draw = 0; draw < 50; ++draw) {
        std::vector<float> logits(2000);
        for (size_t i = 0; i < logits.size(); ++i)
          // many are equal
          logits[i] = static_cast<float>(std::round(40 * random.uniform(draw * 2000 + i)) / 4);
        if (draw % 5 == 0)
          std::fill(logits.begin() + 3, logits.end() - 7,
                    draw % 2 == 0 ? -std::numeric_limits<float>::infinity() : 0.0f);
        if (draw % 10 == 5) std::fill(logits.begin(), logits.begin() + 3, 0.0f);
        if (draw == 10) std::fill(logits.end() - 7, logits.end(), -std::numeric_limits<float>::infinity());
        if (draw == 20)
          std::replace_if(
              logits.begin(), logits.end(), [](float x) { return std::isfinite(x); }, 1.0f);
        const SamplerSettings settings{.temperature = temperature, .top_p = top_p, .seed = draw};
        EXPECT_EQ(next_token(logits, settings, draw), by_sorting(logits, settings, draw))
            << temperature << " " << top_p << " " << draw;
      }
    }
  }
}

// log softmax by hand: e^-1 + e^-0.5 + 1 = 1.974410, e^-2 + e^-1 + 1 = 1.503215.
TEST(Sampler, LogProbabilitiesAreThoseOfTheTemperature) {
  const std::vector<float> logits = {1, 2, 3};
  EXPECT_NEAR(log_probability(logits, 0, 2), -1 - std::log(1.9744101), 1e-6);
  EXPECT_NEAR(log_probability(logits, 2, 1), -std::log(1.5032147), 1e-6);
  EXPECT_EQ(log_probability(logits, 2, 0), log_probability(logits, 2, 1)) << "nothing is divided by 0";
  const std::vector<float> one = {-std::numeric_limits<float>::infinity(), 5};
  EXPECT_EQ(log_probability(one, 1, 0.7), 0);
}

}  // namespace
}  // namespace longhaul::generate
