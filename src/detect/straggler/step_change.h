// The change point of a run's step time: the first step from which on `verified` consecutive steps are all
// more than `more` slower than the best level of the 50 steps before (the smallest running median of five,
// which one quick step does not move), and slower by more than their noise. A single slow step (a checkpoint,
// an evaluation) is no change.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace longhaul::detect {

struct StepChangeOptions {
  double more = 0.10;
  int64_t baseline = 50, verified = 5;  // steps
  double blocked = 5;                   // times the baseline: the run hardly makes progress
};

struct StepChange {
  size_t at = 0;                     // index of the first slow step
  double before_s = 0, after_s = 0;  // medians: the best before the change, and all since
  bool blocked = false;
  double slower() const { return after_s / before_s - 1; }
};

// Returns the last change that still holds at the end; none: the run is as fast as it was.
std::optional<StepChange> step_change(std::span<const double> step_s, const StepChangeOptions& options = {});

}  // namespace longhaul::detect
