// Pace: whoever moves bytes in pieces beside training sleeps behind each for as long as it came too early, and as long as training waits for other ranks
// (base/process/training_wait.h), but not longer than kPause_s for one piece: what training waits for may in the end be these bytes. One thread.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace longhaul {

class Pace {
 public:
  static constexpr double kPause_s = 0.05;
  explicit Pace(double bytes_per_second) : bytes_per_second_(bytes_per_second) {}  // 0: as fast as it goes
  void moved(int64_t bytes);
  double paused_s() const { return paused_s_; }  // for training so far

 private:
  double bytes_per_second_;
  int64_t bytes_ = 0;
  double paused_s_ = 0;
  Stopwatch watch_;  // since it began
};

}  // namespace longhaul
