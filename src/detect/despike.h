// Wrong samples out before machines are compared: the median of a machine's last few samples leaves lone wrong ones out and keeps a level that lasts; it
// comes half a span late. Ours, and off unless asked for: the paper's pulls go in as they are, and on simulated cases it gained nothing
// (bench/results/detect.md).
#pragma once

#include <cstdint>
#include <span>

#include "detect/samples.h"

namespace longhaul::detect {

inline constexpr int64_t kLongestDespike = 31;  // seconds

// rows: the last `rows.size()` seconds of `count` machines, an odd number of them and at most kLongestDespike, the newest last. A machine's median; its
// newest sample as it is where any of them is missing (NaN).
void median_of_rows(std::span<const float* const> rows, int64_t count, float* into);

void refuse_span(int64_t span);  // Error (64) unless it is odd, from 1 to kLongestDespike

// Every sample becomes the median of the `span` (odd) that end with it; what lies before the pull counts as its first second. 1: as they are.
void despike(Pull& pull, int64_t span);

}  // namespace longhaul::detect
