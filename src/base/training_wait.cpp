#include "base/training_wait.h"

#include <atomic>
#include <utility>

namespace longhaul {
namespace {

thread_local bool trains = false;
std::atomic<int> waiting = 0;

}  // namespace

TrainingThread::TrainingThread() : before_(std::exchange(trains, true)) {}
TrainingThread::~TrainingThread() { trains = before_; }

TrainingWait::TrainingWait() : counts_(trains) {
  if (counts_) waiting.fetch_add(1, std::memory_order_relaxed);
}
TrainingWait::~TrainingWait() {
  if (counts_) waiting.fetch_sub(1, std::memory_order_relaxed);
}

bool training_waits() { return waiting.load(std::memory_order_relaxed) > 0; }

}  // namespace longhaul
