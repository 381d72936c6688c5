// Clocks. Durations and deadlines use the monotonic clock; the wall clock is for people and file names only.
#pragma once

#include <cstdint>
#include <string>

namespace longhaul {

int64_t monotonic_ns();                     // CLOCK_MONOTONIC
double wall_time_s();                       // Unix time
std::string wall_time_text(double unix_s);  // "2026-11-21T02:36:05Z"

class Stopwatch {
 public:
  Stopwatch() : start_ns_(monotonic_ns()) {}
  double seconds() const { return static_cast<double>(monotonic_ns() - start_ns_) * 1e-9; }
  double milliseconds() const { return seconds() * 1e3; }

 private:
  int64_t start_ns_;
};

std::string duration_text(double seconds);  // "850 ms", "12.3 s", "4 min 05 s", "3 h 12 min"

}  // namespace longhaul
