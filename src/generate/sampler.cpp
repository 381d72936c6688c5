#include "generate/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
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

Candidates weighted(std::span<const float> logits, size_t best, double temperature) {
  Candidates all(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    const double below = static_cast<double>(logits[i]) - static_cast<double>(logits[best]);
    all[i] = {static_cast<int64_t>(i), std::exp(below / temperature)};
  }
  return all;
}

void keep_likeliest(Candidates& all, std::span<const float> logits, int64_t k) {
  if (k == 0 || k >= static_cast<int64_t>(all.size())) return;
  const auto end = all.begin() + k;
  std::nth_element(all.begin(), end, all.end(), [&](const Candidate& a, const Candidate& b) { return likelier(logits, a, b); });
  all.erase(end, all.end());
  std::sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
}

// Candidates by falling logit, in buckets of equal width; only a bucket that is looked into is put in order.
class Ranking {
 public:
  Ranking(const Candidates& all, std::span<const float> logits, size_t best) : all_(all), logits_(logits), largest_(logits[best]) {
    float smallest = largest_;
    for (const float x : logits) smallest = std::isfinite(x) ? std::min(smallest, x) : smallest;
    buckets_a_unit_ = smallest < largest_ ? static_cast<double>(kBuckets - 1) / (largest_ - static_cast<double>(smallest)) : 0;
    for (const Candidate& each : all) sums_[bucket_of(each)] += each.weight;
  }

  struct Place {
    int64_t id;
    double sum;  // of the weights so far, likeliest first
  };
  // The first with which the sum is enough; the last that can be drawn where none is.
  template <class Enough>
  Place first_with(const Enough& enough) const {
    double sum = 0;
    size_t bucket = 0, last = 0;
    for (; bucket < kBuckets && !enough(sum + sums_[bucket]); sum += sums_[bucket++]) last = sums_[bucket] > 0 ? bucket : last;
    if (bucket == kBuckets) sum -= sums_[bucket = last];
    Candidates inside;
    std::copy_if(all_.begin(), all_.end(), std::back_inserter(inside), [&](const Candidate& each) { return bucket_of(each) == bucket; });
    std::sort(inside.begin(), inside.end(), [&](const Candidate& a, const Candidate& b) { return likelier(logits_, a, b); });
    Place place{0, sum};
    for (const auto& [id, weight] : inside) {
      if (weight == 0) continue;
      place = {id, place.sum + weight};
      if (enough(place.sum)) break;
    }
    return place;
  }

 private:
  static constexpr size_t kBuckets = 1024;

  size_t bucket_of(const Candidate& each) const {
    const double place = (largest_ - static_cast<double>(logits_[static_cast<size_t>(each.id)])) * buckets_a_unit_;
    return place < static_cast<double>(kBuckets - 1) ? static_cast<size_t>(place) : kBuckets - 1;  // NaN too: what is −∞ below equals
  }

  const Candidates& all_;
  std::span<const float> logits_;
  float largest_;
  double buckets_a_unit_;
  std::array<double, kBuckets> sums_{};
};

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
  keep_likeliest(candidates, logits, settings.top_k);
  const double share = RandomStream(settings.seed, "generate").uniform(index);
  const double total = sum_of(candidates);
  if (settings.top_p < 1 || candidates.size() < logits.size()) {
    const Ranking ranking(candidates, logits, best);
    const double kept = settings.top_p < 1 ? ranking.first_with([&](double sum) { return sum >= settings.top_p * total; }).sum : total;
    const double target = std::min(share * kept, std::nextafter(kept, 0.0));
    return ranking.first_with([&](double sum) { return sum > target; }).id;
  }
  const double target = share * total;
  double sum = 0;
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
