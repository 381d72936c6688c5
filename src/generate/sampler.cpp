#include "generate/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "kernels/draw/loops.h"

namespace longhaul::generate {
namespace {

[[noreturn]] void refuse(const char* option, const char* expected, double found) {
  throw Error({.code = ExitCode::kUsage,
               .what = fmt::format("sample.{} is out of range", option),
               .expected = expected,
               .found = fmt::format("{}", found),
               .where = fmt::format("sample.{}", option)});
}

// The largest logit; also proves that the logits are numbers.
float largest_of(std::span<const float> logits) {
  const float largest = kernels::largest_logit(logits.data(), static_cast<int64_t>(logits.size()));
  if (logits.empty() || !std::isfinite(largest)) {
    const auto at = std::ranges::find_if(logits, [&](float x) { return std::isnan(largest) ? std::isnan(x) : x == largest; });
    throw Error({.code = ExitCode::kNumeric,
                 .what = "the model's logits are not numbers",
                 .expected = "a finite largest logit",
                 .found = logits.empty() ? "no logits" : fmt::format("{} at token {}", largest, at - logits.begin()),
                 .hint = "the weights hold NaN or infinity: use an earlier checkpoint"});
  }
  return largest;
}

// e^((logit − largest) / temperature) of each token, and their sums by blocks. Kept by a thread from draw to draw.
struct Weights {
  std::vector<float> each;
  std::vector<double> sums;

  void make(std::span<const float> logits, float largest, double temperature) {
    each.resize(logits.size());
    sums.resize((logits.size() + kernels::kDrawBlock - 1) / kernels::kDrawBlock);
    kernels::draw_weights(logits.data(), static_cast<int64_t>(logits.size()), largest, temperature, each.data(), sums.data());
  }
  // The first token with which the sum of the weights, in the order of ids, is above share times all of it.
  int64_t first_above(double share) const {
    const double target = share * std::accumulate(sums.begin(), sums.end(), 0.0);
    double sum = 0;
    size_t block = 0, last = 0;
    for (; block < sums.size() && !(target < sum + sums[block]); sum += sums[block++]) last = sums[block] > 0 ? block : last;
    if (block == sums.size()) sum -= sums[block = last];
    const size_t begin = block * kernels::kDrawBlock, end = std::min(each.size(), begin + kernels::kDrawBlock);
    size_t drawn = begin;
    for (size_t i = begin; i < end; ++i) {
      if (each[i] == 0) continue;
      drawn = i;  // the last possible token stays when rounding leaves the sum below the target
      if (target < (sum += static_cast<double>(each[i]))) break;
    }
    return static_cast<int64_t>(drawn);
  }
};

struct Candidate {
  int64_t id;
  double weight;
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

Candidates candidates_of(const std::vector<float>& weights) {
  Candidates all(weights.size());
  for (size_t i = 0; i < weights.size(); ++i) all[i] = {static_cast<int64_t>(i), static_cast<double>(weights[i])};
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
  Ranking(const Candidates& all, std::span<const float> logits, float largest) : all_(all), logits_(logits), largest_(largest) {
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
  const float largest = largest_of(logits);
  if (settings.temperature == 0) return std::ranges::find(logits, largest) - logits.begin();

  thread_local Weights weights;
  weights.make(logits, largest, settings.temperature);
  const double share = RandomStream(settings.seed, "generate").uniform(index);
  const bool all = settings.top_k == 0 || settings.top_k >= static_cast<int64_t>(logits.size());
  if (all && settings.top_p == 1) return weights.first_above(share);

  Candidates candidates = candidates_of(weights.each);
  keep_likeliest(candidates, logits, settings.top_k);
  const double total = sum_of(candidates);
  const Ranking ranking(candidates, logits, largest);
  const double kept = settings.top_p < 1 ? ranking.first_with([&](double sum) { return sum >= settings.top_p * total; }).sum : total;
  const double target = std::min(share * kept, std::nextafter(kept, 0.0));
  return ranking.first_with([&](double sum) { return sum > target; }).id;
}

}  // namespace longhaul::generate
