// The number of spare machines (docs/sources/reliability.md §3, after ByteRobust, arXiv 2509.16293): enough
// that, with the given probability, no more machines fail on one day than there are spares.
#pragma once

#include <cstdint>

namespace longhaul::plan {

// Smallest s with P(at most s of `machines` fail) >= confidence, where each fails independently with
// `failure_probability`. kUsage outside [0, 1).
int64_t spares_needed(int64_t machines, double failure_probability, double confidence = 0.99);

}  // namespace longhaul::plan
