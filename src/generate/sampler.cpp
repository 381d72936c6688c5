#include "generate/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "base/random.h"

namespace longhaul::generate {
namespace {

[[noreturn]] void refuse(const char* option, const char* expected, double found) {
  throw Error({.code = ExitCode::kUsage,
               .what = fmt::format("sample.{} is out of range", option),
               .expected = expected,
               .found = fmt::format("{}", found),
               .where = fmt::format("sample.{}", option)});
}

// The likeliest token; also proves that the logits are numbers. std::max_element would step over NaN.
size_t likeliest(std::span<const float> logits) {
  size_t best = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i])) best = i;
    if (std::isnan(logits[best])) break;
    if (logits[i] > logits[best]) best = i;
  }
  if (logits.empty() || !std::isfinite(logits[best])) {
    throw Error({.code = ExitCode::kNumeric,
                 .what = "the model's logits are not numbers",
                 .expected = "a finite largest logit",
                 .found = logits.empty() ? "no logits" : fmt::format("{} at token {}", logits[best], best),
                 .hint = "the weights hold NaN or infinity: use an earlier checkpoint"});
  }
  return best;
}

// Ids that may be drawn, likeliest first where top-k or top-p ask for an order, else ascending.
std::vector<int64_t> candidates(std::span<const float> logits, const SamplerSettings& settings) {
  std::vector<int64_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto k = settings.top_k == 0 ? ids.size() : std::min(ids.size(), static_cast<size_t>(settings.top_k));
  if (k == ids.size() && settings.top_p == 1) return ids;
  const auto likelier = [&](int64_t a, int64_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };
  std::partial_sort(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(k), ids.end(), likelier);
  ids.resize(k);
  return ids;
}

}  // namespace

void check(const SamplerSettings& settings) {
  if (!(settings.temperature >= 0) || std::isinf(settings.temperature)) refuse("temperature", "0 or more", settings.temperature);
  if (settings.top_k < 0) refuse("top_k", "0 (all) or more", static_cast<double>(settings.top_k));
  if (!(settings.top_p > 0 && settings.top_p <= 1)) refuse("top_p", "above 0, at most 1", settings.top_p);
}

int64_t next_token(std::span<const float> logits, const SamplerSettings& settings, uint64_t index) {
  check(settings);
  const size_t best = likeliest(logits);
  if (settings.temperature == 0) return static_cast<int64_t>(best);

  std::vector<int64_t> ids = candidates(logits, settings);
  std::vector<double> weights;
  weights.reserve(ids.size());
  for (const int64_t id : ids) {
    const double below = static_cast<double>(logits[static_cast<size_t>(id)]) - static_cast<double>(logits[best]);
    weights.push_back(std::exp(below / settings.temperature));
  }
  double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (settings.top_p < 1) {
    double kept = 0;
    size_t count = 0;
    while (count < weights.size() && kept < settings.top_p * total) kept += weights[count++];
    weights.resize(count);
    total = kept;
  }
  const double target = RandomStream(settings.seed, "generate").uniform(index) * total;
  double sum = 0;
  size_t drawn = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0) continue;
    drawn = i;  // the last possible token stays when rounding leaves the sum below the target
    sum += weights[i];
    if (target < sum) break;
  }
  return ids[drawn];
}

}  // namespace longhaul::generate
