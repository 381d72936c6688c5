#include "base/threads/leavable_worker.h"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>

#include "base/threads/worker.h"

namespace longhaul {

struct LeavableWorker::Open {
  std::mutex mutex;
  std::condition_variable changed;
  int64_t tasks = 0;  // that have not ended
};

namespace {

// Counts a task as ended, however it ends.
class Ended {
 public:
  explicit Ended(std::function<void()> ended) : ended_(std::move(ended)) {}
  ~Ended() { ended_(); }
  Ended(const Ended&) = delete;
  Ended& operator=(const Ended&) = delete;

 private:
  std::function<void()> ended_;
};

}  // namespace

LeavableWorker::LeavableWorker(std::string name)
    : open_(std::make_shared<Open>()), worker_(std::make_unique<Worker>(std::move(name))) {}

LeavableWorker::~LeavableWorker() { end(); }

void LeavableWorker::post(std::function<void()> task) {
  {
    const std::lock_guard lock(open_->mutex);
    ++open_->tasks;
  }
  worker_->post([open = open_, task = std::move(task)] {
    const Ended ended([&] {
      const std::lock_guard lock(open->mutex);
      --open->tasks;
      open->changed.notify_all();
    });
    task();
  });
}

bool LeavableWorker::end(double patience_s) {
  if (!worker_) return true;
  std::unique_lock lock(open_->mutex);
  const bool ended = open_->changed.wait_for(lock, std::chrono::duration<double>(patience_s),
                                             [&] { return open_->tasks == 0; });
  lock.unlock();
  if (ended) {
    worker_.reset();
  } else {
    (void)worker_.release();  // on purpose: its destructor would wait for the thread
  }
  return ended;
}

}  // namespace longhaul
