#include "tensor/copy_lane.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <condition_variable>
#include <cstring>
#include <mutex>

#include "base/clock.h"
#include "base/error.h"
#include "base/threads/link_pace.h"

namespace longhaul {
namespace {

c10::Stream current_stream_of(at::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

}  // namespace

struct Copy::Landing {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  double seconds = 0;
  std::exception_ptr failure;

  void land(double took_s, std::exception_ptr thrown) {
    const std::lock_guard lock(mutex);
    seconds = took_s;
    failure = std::move(thrown);
    done = true;
    changed.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return done; });
  }
};

Copy::Copy(at::Device device) {
  if (device.is_cpu()) {
    landing_ = std::make_shared<Landing>();
    return;
  }
  begun_.emplace(device.type(), c10::EventFlag::BACKEND_DEFAULT);  // the flag: with times
  ended_.emplace(device.type(), c10::EventFlag::BACKEND_DEFAULT);
}

void Copy::before_next() {
  if (landing_ != nullptr) return landing_->wait();
  ended_->block(current_stream_of(ended_->device()));
}

void Copy::finish() { landing_ != nullptr ? landing_->wait() : ended_->synchronize(); }

bool Copy::done() const {
  if (landing_ == nullptr) return ended_->query();
  const std::lock_guard lock(landing_->mutex);
  return landing_->done;
}

double Copy::seconds() {
  finish();
  return landing_ != nullptr ? landing_->seconds : 1e-3 * begun_->elapsedTime(*ended_);
}

std::exception_ptr Copy::failure() {
  finish();
  return landing_ != nullptr ? landing_->failure : nullptr;
}

struct CopyLane::Link {
  LinkPace pace;
};

CopyLane::CopyLane(std::string name, at::Device device, double bytes_per_second) : device_(device) {
  if (device.is_cpu()) {
    worker_ = std::make_unique<Worker>(std::move(name));
    link_ = std::make_shared<Link>(LinkPace(bytes_per_second));
  } else {
    stream_ = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
  }
}

CopyLane::~CopyLane() {
  for (const Held& held : held_) held.copy->finish();
}

std::shared_ptr<Copy> CopyLane::start(const Tensor& to, const Tensor& from, std::shared_ptr<Copy> after) {
  LONGHAUL_ASSERT(to.is_contiguous() && from.is_contiguous() && to.nbytes() == from.nbytes(),
                  "{} bytes are copied to {}", from.nbytes(), to.nbytes());
  if (worker_ != nullptr) {
    return start(
        [to = Tensor(to), from = Tensor(from)] {
          std::memcpy(to.mutable_data_ptr(), from.const_data_ptr(), from.nbytes());
        },
        static_cast<int64_t>(from.nbytes()), std::move(after));
  }
  const auto copy = std::make_shared<Copy>(device_);
  c10::Event queued(device_.type());
  queued.record(current_stream_of(device_));
  queued.block(*stream_);
  if (after != nullptr) after->ended_->block(*stream_);
  copy->begun_->record(*stream_);
  {
    const c10::StreamGuard on_lane(*stream_);
    Tensor(to).copy_(from, /*non_blocking=*/true);
  }
  copy->ended_->record(*stream_);
  let_go();
  held_.push_back({copy, to, from});
  return copy;
}

std::shared_ptr<Copy> CopyLane::start(std::function<void()> work, int64_t bytes,
                                      std::shared_ptr<Copy> after) {
  LONGHAUL_ASSERT(worker_ != nullptr, "a lane of a GPU has no thread");
  const auto copy = std::make_shared<Copy>(device_);
  worker_->post([work = std::move(work), bytes, after = std::move(after), link = link_,
                 landing = copy->landing_]() mutable {
    if (after != nullptr) after->finish();
    const int64_t begin_ns = monotonic_ns();
    std::exception_ptr thrown;
    try {
      work();
      link->pace.carried(begin_ns, bytes);
    } catch (...) {
      thrown = std::current_exception();
    }
    work = nullptr;  // before anyone is told
    landing->land(1e-9 * static_cast<double>(monotonic_ns() - begin_ns), std::move(thrown));
  });
  return copy;
}

void CopyLane::let_go() {
  while (!held_.empty() && held_.front().copy->done()) held_.pop_front();
}

}  // namespace longhaul
