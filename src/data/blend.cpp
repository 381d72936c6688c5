#include "data/blend.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace longhaul::data {
namespace {

constexpr int64_t kLongestPeriod = 1 << 16;

// Whole numbers in the ratio of the shares: the smallest period that represents all of them, or the longest, rounded so that the
// sum stays right (largest remainder).
std::vector<int64_t> whole_numbers(std::span<const double> shares) {
  const auto fits = [&](int64_t period) {
    return std::all_of(shares.begin(), shares.end(), [&](double share) {
      const double exact = share * static_cast<double>(period);
      return std::abs(exact - std::round(exact)) < 1e-9 * static_cast<double>(period);
    });
  };
  int64_t period = 1;
  while (period < kLongestPeriod && !fits(period)) ++period;
  std::vector<int64_t> counts;
  std::vector<std::pair<double, size_t>> remainders;
  for (size_t k = 0; k < shares.size(); ++k) {
    const double exact = shares[k] * static_cast<double>(period);
    counts.push_back(static_cast<int64_t>(std::floor(exact + 1e-6)));
    remainders.emplace_back(static_cast<double>(counts.back()) - exact, k);
  }
  std::sort(remainders.begin(), remainders.end());
  int64_t left = period - std::accumulate(counts.begin(), counts.end(), int64_t{0});
  for (size_t i = 0; left > 0; ++i, --left) ++counts[remainders[i % remainders.size()].second];
  return counts;
}

}  // namespace

Blend::Blend(std::span<const double> weights) {
  double sum = 0;
  for (double weight : weights) {
    if (!(weight >= 0) || !std::isfinite(weight)) {
      throw Error({.code = ExitCode::kUsage,
                   .what = "bad weight of a dataset",
                   .expected = "a number of at least 0",
                   .found = fmt::format("{}", weight),
                   .hint = "set data.weights"});
    }
    sum += weight;
  }
  if (!(sum > 0)) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "no dataset has a weight",
                 .expected = "at least one weight above 0",
                 .hint = "set data.weights"});
  }
  std::vector<double> shares;
  for (double weight : weights) shares.push_back(weight / sum);
  counts_ = whole_numbers(shares);
  const int64_t period = std::accumulate(counts_.begin(), counts_.end(), int64_t{0});
  const auto datasets = static_cast<int64_t>(counts_.size());
  // Sample n (from 1) goes, among the datasets whose claim n·w - given is at least 1/(2K-2), to the one that would be the first to
  // fall short by 1 - 1/(2K-2). Everything is multiplied by 2·(K-1)·period, so only whole numbers are compared.
  const int64_t scale = 2 * std::max<int64_t>(datasets - 1, 1);
  std::vector<int64_t> given(counts_.size(), 0);
  for (int64_t n = 1; n <= period; ++n) {
    size_t chosen = counts_.size();
    for (size_t k = 0; k < counts_.size(); ++k) {
      if (counts_[k] == 0 || scale * (n * counts_[k] - given[k] * period) < period) continue;
      // Deadline of k: (given + 1 - 1/scale) / w, compared by cross-multiplication.
      const auto later = [&](size_t a, size_t b) {
        return static_cast<__int128>(scale * (given[a] + 1) - 1) * counts_[b] >
               static_cast<__int128>(scale * (given[b] + 1) - 1) * counts_[a];
      };
      if (chosen == counts_.size() || later(chosen, k)) chosen = k;
    }
    LONGHAUL_ASSERT(chosen < counts_.size(), "no dataset may take sample {} of {}", n, period);
    table_.push_back({static_cast<int32_t>(chosen), static_cast<int32_t>(given[chosen]++)});
  }
}

Blend::Place Blend::at(int64_t sample) const {
  LONGHAUL_ASSERT(sample >= 0, "sample {}", sample);
  const Slot slot = table_[static_cast<size_t>(sample % period())];
  return {slot.dataset, sample / period() * counts_[static_cast<size_t>(slot.dataset)] + slot.rank};
}

double Blend::weight(int64_t dataset) const {
  return static_cast<double>(counts_[static_cast<size_t>(dataset)]) / static_cast<double>(period());
}

}  // namespace longhaul::data
