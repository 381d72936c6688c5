// The most memory that this process holds from here on: peak_resident_bytes() (machine.h) counts from the last reset.
#pragma once

#include <cstdint>

namespace longhaul {

// Gives free memory back, sets the peak to what is held now and returns that, in bytes; −1 where the kernel does not allow it (/proc/self/clear_refs).
int64_t reset_peak_resident_bytes();

}  // namespace longhaul
