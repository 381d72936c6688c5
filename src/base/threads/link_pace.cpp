#include "base/threads/link_pace.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/clock.h"

namespace longhaul {

void LinkPace::carried(int64_t begin_ns, int64_t bytes) {
  if (bytes_per_second_ <= 0) return;
  free_ns_ = std::max(free_ns_, begin_ns) +
             static_cast<int64_t>(1e9 * static_cast<double>(bytes) / bytes_per_second_);
  const int64_t early_ns = free_ns_ - monotonic_ns();
  if (early_ns > 0) std::this_thread::sleep_for(std::chrono::nanoseconds(early_ns));
}

}  // namespace longhaul
