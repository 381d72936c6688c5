#include "base/threads/pace.h"

#include <chrono>
#include <thread>

#include "base/process/training_wait.h"

namespace longhaul {

void Pace::moved(int64_t bytes) {
  if (training_waits()) {
    const Stopwatch pause;
    while (training_waits() && pause.seconds() < kPause_s)
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    paused_s_ += pause.seconds();
  }
  if (bytes_per_second_ <= 0) return;
  bytes_ += bytes;
  const double early_s = static_cast<double>(bytes_) / bytes_per_second_ - watch_.seconds();
  if (early_s > 0) std::this_thread::sleep_for(std::chrono::duration<double>(early_s));
}

}  // namespace longhaul
