#include "base/processor_time.h"

#include <ctime>

namespace longhaul {

int64_t thread_processor_ns() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec;
}

}  // namespace longhaul
