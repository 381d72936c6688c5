// WorkFit: how long a rank's share of a step should take. T = fixed + a·tokens + b·Σ lengths² + c·rows of
// experts (ResiHP's form) is fitted to all measurements of the peers. A few outliers (a slow rank, a
// disturbed step) are left out of the second and third fit. Columns that add no information (equal work
// everywhere) get no coefficient.
#pragma once

#include <array>
#include <span>

#include "detect/straggler/step_times.h"

namespace longhaul::detect {

struct WorkSample {
  Work work;
  double seconds = 0;
};

class WorkFit {
 public:
  explicit WorkFit(std::span<const WorkSample> samples);  // needs at least one sample, all with known work
  double seconds(const Work& work) const;                 // above 0

 private:
  std::array<double, 4> factors_{};
  double least_ = 0;  // lower limit in seconds, because the prediction for little work may be below 0
};

}  // namespace longhaul::detect
