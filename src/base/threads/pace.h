// Pace slows background transfers. After each piece it sleeps if the piece came too early for the given rate,
// and as long as training waits for other ranks (base/process/training_wait.h), but at most kPause_s per
// piece, because training may in the end wait for these bytes. For one thread.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace longhaul {

class Pace {
 public:
  static constexpr double kPause_s = 0.05;
  explicit Pace(double bytes_per_second) : bytes_per_second_(bytes_per_second) {}  // 0: no limit of the rate
  void moved(int64_t bytes);
  double paused_s() const { return paused_s_; }  // total pause in favour of training

 private:
  double bytes_per_second_;
  int64_t bytes_ = 0;
  double paused_s_ = 0;
  Stopwatch watch_;  // since it began
};

}  // namespace longhaul
