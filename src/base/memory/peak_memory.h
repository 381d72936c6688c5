// The most memory that this process holds after a reset: peak_resident_bytes() (machine.h) counts from the
// last reset.
#pragma once

#include <cstdint>

namespace longhaul {

// Returns free memory to the system, sets the peak to the memory held now, and returns that in bytes; −1
// where the kernel does not allow it (/proc/self/clear_refs).
int64_t reset_peak_resident_bytes();

}  // namespace longhaul
