// Wrong samples out before machines are compared. Two samples in a hundred that are wrong are, among 1,500 machines, some thirty every second: one of
// them, not the faulty machine, is then the furthest of all, and continuity, which asks for one machine during four minutes, never holds. The median of a
// machine's last few samples leaves lone wrong ones out and keeps a level that lasts; it comes half a span late. Ours: the paper's pulls go in as they are.
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
