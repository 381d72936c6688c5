#include "base/machine/processor_time.h"

#include <ctime>

namespace longhaul {
namespace {

int64_t clock_ns(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec;
}

}  // namespace

int64_t thread_processor_ns() { return clock_ns(CLOCK_THREAD_CPUTIME_ID); }
int64_t process_processor_ns() { return clock_ns(CLOCK_PROCESS_CPUTIME_ID); }

}  // namespace longhaul
