// Finds machines whose clocks are wrong by seconds. All machines do the same step at the same second, so a
// swing in one is a swing in all. Each machine's metric is compared with the mean of its class at lags of up
// to kMostLag seconds (cross-correlation); where another lag than zero fits clearly better, its clock is
// wrong by that lag. Such a machine would look different in every window without being faulty; therefore its
// samples are moved, and this is reported. The method is ours. Lags of half a step period or more cannot be
// told from their remainder.
#pragma once

#include <string>
#include <vector>

#include "detect/samples/samples.h"

namespace longhaul::detect {

// seconds; a lag of one second is within the error of sampling.
inline constexpr int64_t kMostLag = 10, kLeastLag = 2;

struct ClockLag {
  int32_t machine = 0;
  int64_t seconds = 0;  // positive: what the others show at second t, it shows at t + seconds
};

// Uses the metric of the class that has the strongest common swing. Nothing is found in classes of fewer than
// kFewestPeers, or where nothing swings.
std::vector<ClockLag> clock_lags(const Pull& pull);

// Moves the samples of these machines; beyond the ends there is no data. Returns one sentence for each
// machine.
std::vector<std::string> move_clocks(Pull& pull, const std::vector<ClockLag>& lags);

}  // namespace longhaul::detect
