// Machines whose clocks are seconds apart: all do the same step at the same second, so what swings in one swings in all. Each machine's metric is
// compared with the mean of its class at lags of up to kMostLag seconds (cross-correlation); where another lag than none fits clearly better, its clock
// is that far off. Such a machine would look different in every window without being faulty: its samples are moved, and that is said. Ours; lags of
// half a period of the step and more cannot be told from their remainder.
#pragma once

#include <string>
#include <vector>

#include "detect/samples/samples.h"

namespace longhaul::detect {

inline constexpr int64_t kMostLag = 10, kLeastLag = 2;  // seconds; a second less is the sampling's own

struct ClockLag {
  int32_t machine = 0;
  int64_t seconds = 0;  // positive: what the others show at second t it shows at t + seconds
};

// By the metric of the class that swings most in common. Classes of fewer than kFewestPeers, or in which nothing swings, tell nothing.
std::vector<ClockLag> clock_lags(const Pull& pull);

// Moves the samples of these machines; what comes from beyond the ends is no data. One sentence each.
std::vector<std::string> move_clocks(Pull& pull, const std::vector<ClockLag>& lags);

}  // namespace longhaul::detect
