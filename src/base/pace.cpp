#include "base/pace.h"

#include <chrono>
#include <thread>

namespace longhaul {

void Pace::moved(int64_t bytes) {
  if (bytes_per_second_ <= 0) return;
  bytes_ += bytes;
  const double early_s = static_cast<double>(bytes_) / bytes_per_second_ - watch_.seconds();
  if (early_s > 0) std::this_thread::sleep_for(std::chrono::duration<double>(early_s));
}

}  // namespace longhaul
