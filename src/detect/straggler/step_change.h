// Change point of a run's step time: the first step from which on `verified` steps in a row are all more than `more` slower than the best that the
// 50 steps before had (the smallest running median of five, which one quick step does not move), and further than their noise reaches. A slow step
// now and then (a checkpoint, an evaluation) is no change.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace longhaul::detect {

struct StepChangeOptions {
  double more = 0.10;
  int64_t baseline = 50, verified = 5;  // steps
  double blocked = 5;                   // times the baseline: the run hardly moves
};

struct StepChange {
  size_t at = 0;                     // place of the first slow step
  double before_s = 0, after_s = 0;  // medians: of the best before, of what came since
  bool blocked = false;
  double slower() const { return after_s / before_s - 1; }
};

// The last change that still holds at the end; none: the run is as quick as it was.
std::optional<StepChange> step_change(std::span<const double> step_s, const StepChangeOptions& options = {});

}  // namespace longhaul::detect
