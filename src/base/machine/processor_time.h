// Processor time of the calling thread, and of all threads of the process, beside clocks that go on while they wait.
#pragma once

#include <cstdint>

namespace longhaul {

int64_t thread_processor_ns();   // CLOCK_THREAD_CPUTIME_ID
int64_t process_processor_ns();  // CLOCK_PROCESS_CPUTIME_ID: cores × time in which they worked for it

}  // namespace longhaul
