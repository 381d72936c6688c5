#include "posttrain/reinforce/advantages.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace longhaul::posttrain {
namespace {

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

std::vector<double> group_advantages(std::span<const double> rewards, Baseline baseline, double eps) {
  LONGHAUL_ASSERT(!rewards.empty(), "a group without answers");
  if (rewards.size() == 1) return {rewards[0]};
  std::vector<double> advantages(rewards.size(), 0.0);
  // A mean that is rounded would leave something of answers that do not differ.
  if (std::ranges::all_of(rewards, [&](double reward) { return reward == rewards[0]; })) return advantages;
  const double mean = mean_of(rewards), count = static_cast<double>(rewards.size());
  double squares = 0;
  for (const double reward : rewards) squares += (reward - mean) * (reward - mean);
  const double deviation = std::sqrt(squares / (count - 1));
  for (size_t i = 0; i < rewards.size(); ++i) {
    const double above = rewards[i] - mean;
    if (baseline == Baseline::kDeviation) advantages[i] = above / (deviation + eps);
    if (baseline == Baseline::kMean) advantages[i] = above;
    if (baseline == Baseline::kOthers) advantages[i] = above * count / (count - 1);
  }
  return advantages;
}

std::vector<double> batch_normalised(std::span<const double> advantages, std::span<const double> weights,
                                     double eps) {
  LONGHAUL_ASSERT(advantages.size() == weights.size(), "{} advantages, {} weights", advantages.size(),
                  weights.size());
  double weight = 0, sum = 0, squares = 0;
  for (size_t i = 0; i < advantages.size(); ++i) {
    weight += weights[i];
    sum += weights[i] * advantages[i];
  }
  std::vector<double> normalised(advantages.size(), 0.0);
  if (weight == 0) return normalised;
  const double mean = sum / weight;
  for (size_t i = 0; i < advantages.size(); ++i)
    squares += weights[i] * (advantages[i] - mean) * (advantages[i] - mean);
  const double deviation = std::sqrt(squares / weight);
  for (size_t i = 0; i < advantages.size(); ++i) normalised[i] = (advantages[i] - mean) / (deviation + eps);
  return normalised;
}

Estimated generalised_advantages(std::span<const double> rewards, std::span<const double> values,
                                 double gamma, double lambda) {
  LONGHAUL_ASSERT(rewards.size() == values.size(), "{} rewards, {} values", rewards.size(), values.size());
  Estimated estimated{std::vector<double>(rewards.size()), std::vector<double>(rewards.size())};
  double later = 0, next_value = 0;
  for (size_t t = rewards.size(); t-- > 0;) {
    later = rewards[t] + gamma * next_value - values[t] + gamma * lambda * later;
    next_value = values[t];
    estimated.advantages[t] = later;
    estimated.returns[t] = later + values[t];
  }
  return estimated;
}

double overlong_penalty(int64_t tokens, int64_t limit, int64_t cache) {
  if (cache == 0 || tokens <= limit - cache) return 0;
  return std::max(-1.0, static_cast<double>(limit - cache - tokens) / static_cast<double>(cache));
}

}  // namespace longhaul::posttrain
