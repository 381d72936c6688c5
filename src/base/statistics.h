// What several places say of a list of measurements.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace longhaul {

// The middle one (of an even count the later of the two); NaN of none.
inline double median(std::vector<double> values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// 1.4826 times the median distance from `around`: for normal noise its standard deviation, whatever a few wild values do.
inline double robust_deviation(const std::vector<double>& values, double around) {
  std::vector<double> distances;
  distances.reserve(values.size());
  for (const double value : values) distances.push_back(std::abs(value - around));
  return 1.4826 * median(std::move(distances));
}

}  // namespace longhaul
