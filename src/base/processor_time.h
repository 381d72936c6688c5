// The processor time of the calling thread, beside clocks that go on while it waits.
#pragma once

#include <cstdint>

namespace longhaul {

int64_t thread_processor_ns();  // CLOCK_THREAD_CPUTIME_ID

}  // namespace longhaul
