// What several places say of a list of measurements.
#pragma once

#include <algorithm>
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

}  // namespace longhaul
