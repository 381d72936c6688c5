#include "base/process/training_wait.h"

#include <atomic>
#include <utility>

namespace longhaul {
namespace {

thread_local bool this_thread = false;
std::atomic<int> waiting = 0;

}  // namespace

TrainingThread::TrainingThread(bool trains) : before_(std::exchange(this_thread, trains)) {}
TrainingThread::~TrainingThread() { this_thread = before_; }
bool TrainingThread::current() { return this_thread; }

TrainingWait::TrainingWait() : counts_(this_thread) {
  if (counts_) waiting.fetch_add(1, std::memory_order_relaxed);
}
TrainingWait::~TrainingWait() {
  if (counts_) waiting.fetch_sub(1, std::memory_order_relaxed);
}

bool training_waits() { return waiting.load(std::memory_order_relaxed) > 0; }

}  // namespace longhaul
