// Processor time of the calling thread, and of all threads of the process. It stands still while they wait,
// unlike other clocks.
#pragma once

#include <cstdint>

namespace longhaul {

int64_t thread_processor_ns();   // CLOCK_THREAD_CPUTIME_ID
int64_t process_processor_ns();  // CLOCK_PROCESS_CPUTIME_ID: the sum over its cores

}  // namespace longhaul
