#include "generate/sampler.h"

#include <algorithm>
#include <cmath>
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

struct Candidate {
  int64_t id;
  double weight;  // e^((logit − largest) / temperature)
};

bool likelier(std::span<const float> logits, const Candidate& a, const Candidate& b) {
  const float x = logits[static_cast<size_t>(a.id)], y = logits[static_cast<size_t>(b.id)];
  return x != y ? x > y : a.id < b.id;
}

double sum_of(const std::vector<Candidate>& candidates) {
  double sum = 0;
  for (const Candidate& each : candidates) sum += each.weight;
  return sum;
}

using Candidates = std::vector<Candidate>;

// The first with which their weights, likeliest first, add up to enough; `sum` is set to what they add up to. Those before it are then the
// likelier ones, in no order: they are halved again and again, never sorted.
template <class Enough>
Candidates::iterator first_with(Candidates& all, std::span<const float> logits, double& sum, const Enough& enough) {
  sum = 0;
  auto first = all.begin(), last = all.end();
  while (last - first > 1) {
    const auto middle = first + (last - first) / 2;
    std::nth_element(first, middle, last, [&](const Candidate& a, const Candidate& b) { return likelier(logits, a, b); });
    double half = sum;
    for (auto each = first; each != middle; ++each) half += each->weight;
    if (enough(half)) {
      last = middle;
    } else {
      first = middle;
      sum = half;
    }
  }
  sum += first->weight;
  return first;
}

Candidates weighted(std::span<const float> logits, size_t best, double temperature) {
  Candidates all;
  all.reserve(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    const double below = static_cast<double>(logits[i]) - static_cast<double>(logits[best]);
    all.push_back({static_cast<int64_t>(i), std::exp(below / temperature)});
  }
  return all;
}

void keep_likeliest(Candidates& all, std::span<const float> logits, int64_t k) {
  if (k == 0 || k >= static_cast<int64_t>(all.size())) return;
  const auto end = all.begin() + k;
  std::nth_element(all.begin(), end, all.end(), [&](const Candidate& a, const Candidate& b) { return likelier(logits, a, b); });
  all.erase(end, all.end());
}

void keep_share(Candidates& all, std::span<const float> logits, double p) {
  if (p == 1) return;
  const double total = sum_of(all), wanted = p * total;
  // Those below an even share of what p leaves out are not needed, all of them together; half of it leaves room for rounding.
  const double least = 0.5 * (1 - p) * total / static_cast<double>(all.size());
  std::erase_if(all, [&](const Candidate& each) { return each.weight < least; });
  double kept = 0;
  const auto last = first_with(all, logits, kept, [&](double sum) { return sum >= wanted; });
  all.erase(last + 1, all.end());
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

  Candidates candidates = weighted(logits, best, settings.temperature);
  const double share = RandomStream(settings.seed, "generate").uniform(index);
  const bool all = settings.top_k == 0 && settings.top_p == 1;
  keep_likeliest(candidates, logits, settings.top_k);
  keep_share(candidates, logits, settings.top_p);
  const double target = share * sum_of(candidates);
  double sum = 0;
  if (!all) return first_with(candidates, logits, sum, [&](double reached) { return reached > target; })->id;
  int64_t drawn = 0;
  for (const auto& [id, weight] : candidates) {
    if (weight == 0) continue;
    drawn = id;  // the last possible token stays when rounding leaves the sum below the target
    sum += weight;
    if (target < sum) break;
  }
  return drawn;
}

}  // namespace longhaul::generate
