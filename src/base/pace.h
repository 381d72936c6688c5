// Pace: whoever moves bytes in pieces sleeps behind each for as long as it came too early. One thread.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace longhaul {

class Pace {
 public:
  explicit Pace(double bytes_per_second) : bytes_per_second_(bytes_per_second) {}  // 0: as fast as it goes
  void moved(int64_t bytes);

 private:
  double bytes_per_second_;
  int64_t bytes_ = 0;
  Stopwatch watch_;  // since it began
};

}  // namespace longhaul
