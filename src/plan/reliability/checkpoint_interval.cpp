#include "plan/reliability/checkpoint_interval.h"

#include <cmath>

namespace longhaul::plan {

double young_interval_s(double checkpoint_s, double mean_to_failure_s) {
  return std::sqrt(2 * checkpoint_s * mean_to_failure_s);
}

double daly_interval_s(double checkpoint_s, double mean_to_failure_s) {
  const double ratio = checkpoint_s / (2 * mean_to_failure_s);
  if (ratio >= 1) return mean_to_failure_s;
  return young_interval_s(checkpoint_s, mean_to_failure_s) * (1 + std::sqrt(ratio) / 3 + ratio / 9) -
         checkpoint_s;
}

double observed_mean_to_failure_s(double expected_s, double trained_s, int64_t failures) {
  return (expected_s + trained_s) / static_cast<double>(1 + failures);
}

}  // namespace longhaul::plan
