#include "generate/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "kernels/sampling/log_softmax.h"
#include "kernels/sampling/loops.h"

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
    const auto at = std::ranges::find_if(
        logits, [&](float x) { return std::isnan(largest) ? std::isnan(x) : x == largest; });
    throw Error(
        {.code = ExitCode::kNumeric,
         .what = "the model's logits are not numbers",
         .expected = "a finite largest logit",
         .found = logits.empty() ? "no logits" : fmt::format("{} at token {}", largest, at - logits.begin()),
         .hint = "the weights hold NaN or infinity: use an earlier checkpoint"});
  }
  return largest;
}

// e^((logit − largest) / temperature) of each token, and their sums by blocks. Kept by a thread from draw to
// draw.
struct Weights {
  std::vector<float> each;
  std::vector<double> sums;

  void make(std::span<const float> logits, float largest, double temperature) {
    each.resize(logits.size());
    sums.resize((logits.size() + kernels::kDrawBlock - 1) / kernels::kDrawBlock);
    kernels::draw_weights(logits.data(), static_cast<int64_t>(logits.size()), largest, temperature,
                          each.data(), sums.data());
  }
  // The largest weight is 1.
  void leave_out_below(float least) {
    for (size_t b = 0; b < sums.size(); ++b) {
      sums[b] = 0;
      for (size_t i = b * kernels::kDrawBlock; i < std::min(each.size(), (b + 1) * kernels::kDrawBlock);
           ++i) {
        if (each[i] < least) each[i] = 0;
        sums[b] += static_cast<double>(each[i]);
      }
    }
  }
  // The first token with which the sum of the weights, in the order of ids, is above share times all of it.
  int64_t first_above(double share) const {
    const double target = share * std::accumulate(sums.begin(), sums.end(), 0.0);
    double sum = 0;
    size_t block = 0, last = 0;
    for (; block < sums.size() && !(target < sum + sums[block]); sum += sums[block++])
      last = sums[block] > 0 ? block : last;
    if (block == sums.size()) sum -= sums[block = last];
    const size_t begin = block * kernels::kDrawBlock,
                 end = std::min(each.size(), begin + kernels::kDrawBlock);
    size_t drawn = begin;
    for (size_t i = begin; i < end; ++i) {
      if (each[i] == 0) continue;
      drawn = i;  // the last possible token stays when rounding leaves the sum below the target
      if (target < (sum += static_cast<double>(each[i]))) break;
    }
    return static_cast<int64_t>(drawn);
  }
};

// Tokens by falling logit, equal ones by id.
bool likelier(std::span<const float> logits, int64_t a, int64_t b) {
  const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
  return x != y ? x > y : a < b;
}

// No token but the k likeliest keeps its weight.
void keep_likeliest(std::vector<float>& weights, std::span<const float> logits, int64_t k) {
  std::vector<int64_t> ids(weights.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto end = ids.begin() + k;
  std::nth_element(ids.begin(), end, ids.end(), [&](int64_t a, int64_t b) { return likelier(logits, a, b); });
  std::for_each(end, ids.end(), [&](int64_t id) { weights[static_cast<size_t>(id)] = 0; });
}

// The tokens in order of their logits, by places of equal width; only a place that is looked into is sorted.
// Kept by a thread from draw to draw.
class Ranking {
 public:
  void make(std::span<const float> logits, float largest, const std::vector<float>& weights) {
    logits_ = logits, weights_ = weights;
    places_.resize(logits.size());
    kernels::draw_places(logits.data(), static_cast<int64_t>(logits.size()), largest, places_.data());
    sums_.fill(0);
    for (size_t i = 0; i < weights.size(); ++i)
      sums_[static_cast<size_t>(places_[i])] += static_cast<double>(weights[i]);
    total_ = std::accumulate(sums_.begin(), sums_.end(), 0.0);
  }
  double total() const { return total_; }

  struct Found {
    int64_t id;
    double sum;  // of the weights so far, likeliest first
  };
  // The first with which the sum is enough; the last that can be drawn where none is.
  template <class Enough>
  Found first_with(const Enough& enough) const {
    double sum = 0;
    size_t place = 0, last = 0;
    for (; place < sums_.size() && !enough(sum + sums_[place]); sum += sums_[place++])
      last = sums_[place] > 0 ? place : last;
    if (place == sums_.size()) sum -= sums_[place = last];
    Found found{0, sum};
    for (const int64_t id : sorted(static_cast<int32_t>(place))) {
      const float weight = weights_[static_cast<size_t>(id)];
      if (weight == 0) continue;
      found = {id, found.sum + static_cast<double>(weight)};
      if (enough(found.sum)) break;
    }
    return found;
  }

 private:
  std::vector<int64_t> sorted(int32_t place) const {
    constexpr size_t kTogether = 64;  // most of them hold none, which is seen without a branch for each
    std::vector<int64_t> ids;
    for (size_t begin = 0; begin < places_.size(); begin += kTogether) {
      const size_t end = std::min(begin + kTogether, places_.size());
      int32_t any = 0;
      for (size_t i = begin; i < end; ++i) any |= static_cast<int32_t>(places_[i] == place);
      for (size_t i = begin; any != 0 && i < end; ++i)
        if (places_[i] == place) ids.push_back(static_cast<int64_t>(i));
    }
    std::ranges::sort(ids, [&](int64_t a, int64_t b) { return likelier(logits_, a, b); });
    return ids;
  }

  std::span<const float> logits_, weights_;
  std::vector<int32_t> places_;
  std::array<double, kernels::kDrawPlaces> sums_{};
  double total_ = 0;
};

}  // namespace

void check(const SamplerSettings& settings) {
  if (!(settings.temperature >= 0) || std::isinf(settings.temperature))
    refuse("temperature", "0 or more", settings.temperature);
  if (settings.top_k < 0) refuse("top_k", "0 (all) or more", static_cast<double>(settings.top_k));
  if (!(settings.min_p >= 0 && settings.min_p <= 1)) refuse("min_p", "0 to 1", settings.min_p);
  if (!(settings.top_p > 0 && settings.top_p <= 1)) refuse("top_p", "above 0, at most 1", settings.top_p);
}

int64_t next_token(std::span<const float> logits, const SamplerSettings& settings, uint64_t index) {
  check(settings);
  const float largest = largest_of(logits);
  if (settings.temperature == 0) return std::ranges::find(logits, largest) - logits.begin();

  thread_local Weights weights;
  weights.make(logits, largest, settings.temperature);
  if (settings.min_p > 0) weights.leave_out_below(static_cast<float>(settings.min_p));
  const double share = RandomStream(settings.seed, "generate").uniform(index);
  const bool all = settings.top_k == 0 || settings.top_k >= static_cast<int64_t>(logits.size());
  if (all && settings.top_p == 1) return weights.first_above(share);

  if (!all) keep_likeliest(weights.each, logits, settings.top_k);
  thread_local Ranking ranking;
  ranking.make(logits, largest, weights.each);
  const double total = ranking.total();
  const double kept = settings.top_p < 1
                          ? ranking.first_with([&](double sum) { return sum >= settings.top_p * total; }).sum
                          : total;
  const double target = std::min(share * kept, std::nextafter(kept, 0.0));
  return ranking.first_with([&](double sum) { return sum > target; }).id;
}

namespace {

template <class Logit>
std::vector<TokenProbability> likeliest(std::span<const Logit> logits, int64_t count, double temperature) {
  const kernels::LogSoftmax<Logit> softmax(logits, temperature);
  std::vector<int64_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), int64_t{0});
  const auto end =
      ids.begin() + static_cast<std::ptrdiff_t>(std::clamp<int64_t>(count, 0, std::ssize(logits)));
  std::partial_sort(ids.begin(), end, ids.end(), [&](int64_t a, int64_t b) {
    const Logit of_a = logits[static_cast<size_t>(a)], of_b = logits[static_cast<size_t>(b)];
    return of_a > of_b || (of_a == of_b && a < b);
  });
  std::vector<TokenProbability> found;
  for (auto id = ids.begin(); id != end; ++id) found.push_back({*id, softmax.of(*id)});
  return found;
}

}  // namespace

double log_probability(std::span<const float> logits, int64_t id, double temperature) {
  return kernels::LogSoftmax<float>(logits, temperature).of(id);
}
double log_probability(std::span<const double> logits, int64_t id, double temperature) {
  return kernels::LogSoftmax<double>(logits, temperature).of(id);
}

std::vector<TokenProbability> likeliest_tokens(std::span<const float> logits, int64_t count,
                                               double temperature) {
  return likeliest(logits, count, temperature);
}
std::vector<TokenProbability> likeliest_tokens(std::span<const double> logits, int64_t count,
                                               double temperature) {
  return likeliest(logits, count, temperature);
}

}  // namespace longhaul::generate
