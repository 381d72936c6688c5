// Statistics of a list of measurements that several folders use.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

namespace longhaul {

// The middle value (for an even count, the larger of the two middle ones); NaN for an empty list.
inline double median(std::vector<double> values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Ranks of the values in rising order, from 0; equal values share the mean of their ranks.
inline std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return values[i]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin + 1;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (size_t i = begin; i < end; ++i) ranks[order[i]] = 0.5 * static_cast<double>(begin + end - 1);
    begin = end;
  }
  return ranks;
}

// Spearman's rank correlation: 1 where one list rises with the other, −1 where it falls; NaN where one is
// constant. Both lists have the same length.
inline double rank_correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const std::vector<double> x = ranks_of(a), y = ranks_of(b);
  const double middle = 0.5 * (static_cast<double>(x.size()) - 1);
  double xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - middle) * (y[i] - middle);
    xx += (x[i] - middle) * (x[i] - middle);
    yy += (y[i] - middle) * (y[i] - middle);
  }
  return xy / std::sqrt(xx * yy);
}

// Kendall's τ: the share of pairs that both lists put in the same order, less the share that they put in
// opposite orders. Pairs that are equal in one list count for neither and shrink the whole (τ-b). NaN where
// one list is constant. Both lists have the same length.
inline double pair_order_correlation(const std::vector<double>& a, const std::vector<double>& b) {
  int64_t agree = 0, differ_a = 0, differ_b = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const int in_a = (a[i] > a[j]) - (a[i] < a[j]), in_b = (b[i] > b[j]) - (b[i] < b[j]);
      agree += in_a * in_b;
      differ_a += in_a != 0;
      differ_b += in_b != 0;
    }
  }
  return static_cast<double>(agree) /
         std::sqrt(static_cast<double>(differ_a) * static_cast<double>(differ_b));
}

// 1.4826 times the median distance from `around`: for normal noise this is the standard deviation, and a few
// outliers do not change it.
inline double robust_deviation(const std::vector<double>& values, double around) {
  std::vector<double> distances;
  distances.reserve(values.size());
  for (const double value : values) distances.push_back(std::abs(value - around));
  return 1.4826 * median(std::move(distances));
}

}  // namespace longhaul
