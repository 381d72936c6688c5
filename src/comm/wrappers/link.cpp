#include "comm/wrappers/link.h"

#include <algorithm>
#include <chrono>

#include "base/clock.h"
#include "base/error.h"

namespace longhaul::comm {
namespace {

constexpr int64_t kLook_ns = 50'000;  // between two looks at calls whose ranks have not all come

}  // namespace

Link::Link(const LinkOptions& options) : options_(options) {
  LONGHAUL_ASSERT(options.latency_s >= 0 && options.bytes_per_second >= 0, "latency {} s, {} bytes/s",
                  options.latency_s, options.bytes_per_second);
  worker_.post([this] { keep_time(); });
}

Link::~Link() {
  const std::lock_guard lock(mutex_);
  ending_ = true;
  changed_.notify_all();
}

std::shared_ptr<Link::Passage> Link::send(Work inner, int64_t bytes, int priority) {
  const std::shared_ptr<Passage> passage(new Passage(std::move(inner), bytes, priority, *this));
  const std::lock_guard lock(mutex_);
  gathering_.push_back(passage);
  changed_.notify_all();
  return passage;
}

double Link::busy_s() const {
  const std::lock_guard lock(mutex_);
  return static_cast<double>(busy_ns_) * 1e-9;
}

// With the lock held. The bytes of the next call go when those of the one before are through.
void Link::start_next(int64_t now) {
  while (!ready_.empty() && free_ns_ <= now) {
    // of equals the first
    const auto next = std::ranges::max_element(ready_, {}, [](const auto& each) { return each->priority_; });
    const double seconds =
        options_.bytes_per_second > 0 ? static_cast<double>((*next)->bytes_) / options_.bytes_per_second : 0;
    const auto bytes_ns = static_cast<int64_t>(seconds * 1e9);
    free_ns_ = now + bytes_ns;
    busy_ns_ += bytes_ns;
    (*next)->due_ns_ = free_ns_ + static_cast<int64_t>(options_.latency_s * 1e9);
    under_way_.push_back(*next);
    ready_.erase(next);
  }
}

void Link::end_due(int64_t now) {
  const auto due = [&](const auto& passage) { return passage->due_ns_ <= now || ending_; };
  for (const auto& passage : under_way_) passage->through_ = passage->through_ || due(passage);
  if (std::erase_if(under_way_, due) > 0) changed_.notify_all();
}

void Link::keep_time() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    for (const auto& passage : gathering_) {
      if (passage->inner_.done()) ready_.push_back(passage);
    }
    std::erase_if(gathering_,
                  [&](const auto& passage) { return std::ranges::find(ready_, passage) != ready_.end(); });
    const int64_t now = monotonic_ns();
    start_next(now);
    end_due(now);
    int64_t next = std::numeric_limits<int64_t>::max();
    if (!gathering_.empty()) next = now + kLook_ns;
    if (!ready_.empty()) next = std::min(next, free_ns_);
    for (const auto& passage : under_way_) next = std::min(next, passage->due_ns_);
    if (next == std::numeric_limits<int64_t>::max())
      changed_.wait(lock);
    else if (next > now)
      changed_.wait_for(lock, std::chrono::nanoseconds(next - now));
  }
  for (const auto* list : {&gathering_, &ready_}) {
    for (const auto& passage : *list) passage->through_ = true;
  }
  end_due(0);
  changed_.notify_all();
}

void Link::Passage::wait() {
  {
    std::unique_lock lock(link_.mutex_);
    link_.changed_.wait(lock, [this] { return through_; });
  }
  inner_.wait();
}

int64_t Link::Passage::ended_ns() {
  const std::lock_guard lock(link_.mutex_);
  return through_ ? due_ns_ : 0;
}

bool Link::Passage::done() {
  const std::lock_guard lock(link_.mutex_);
  return through_;
}

}  // namespace longhaul::comm
