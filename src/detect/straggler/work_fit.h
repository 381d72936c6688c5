// How long a rank's share of a step should take: T = fixed + a·tokens + b·Σ lengths² + c·rows of experts (ResiHP's form), fitted to all that peers
// measured. Few samples that do not fit (a slow rank, a step that something disturbed) are left out of the second and third fit. Columns that say
// nothing new (equal work everywhere) get no part.
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
  explicit WorkFit(std::span<const WorkSample> samples);  // at least one; all with known work
  double seconds(const Work& work) const;                 // above 0

 private:
  std::array<double, 4> factors_{};
  double least_ = 0;  // seconds; what is predicted of little work may come out below 0
};

}  // namespace longhaul::detect
