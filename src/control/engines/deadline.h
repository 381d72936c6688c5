// Deadline: when the run must save because the engine will end the job (control/engines/engine.h: Slurm's
// time limit, LONGHAUL_DEADLINE). near() is called between steps and measures the longest time between two
// calls, including a save within a step. The save must begin at least 1.5 times that time plus a minute
// before the end (docs/sources/reliability.md §5.11). Times are seconds since 1970.
#pragma once

#include <algorithm>
#include <limits>
#include <optional>

namespace longhaul::control {

class Deadline {
 public:
  explicit Deadline(std::optional<double> end_s)
      : end_s_(end_s.value_or(std::numeric_limits<double>::infinity())) {}

  bool near(double now_s) {
    if (asked_s_) longest_s_ = std::max(longest_s_, now_s - *asked_s_);
    asked_s_ = now_s;
    return now_s >= end_s_ - kMargin_s - kSaves * longest_s_;
  }
  double end_s() const { return end_s_; }

 private:
  static constexpr double kMargin_s = 60, kSaves = 1.5;
  double end_s_;
  std::optional<double> asked_s_;
  double longest_s_ = 0;
};

}  // namespace longhaul::control
