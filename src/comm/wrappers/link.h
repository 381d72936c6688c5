// Link: a simulated connection of a rank to the others, for Delayed. Calls go through it one after the
// other, the one of highest priority first (among equals the first that came), each for latency + bytes /
// bandwidth. Latencies of successive calls overlap; bytes do not. A thread of its own keeps the time, so
// that a call proceeds while its rank computes. All groups of the rank share one Link. Any thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "base/threads/worker.h"
#include "comm/work.h"

namespace longhaul::comm {

struct LinkOptions {
  double latency_s = 0;
  double bytes_per_second = 0;  // 0: no limit
};

class Link {
 public:
  explicit Link(const LinkOptions& options);
  ~Link();  // calls in progress end at once

  // A call's passage through the link: it begins when `inner` is done.
  class Passage {
   public:
    void wait();  // until it is through
    bool done();
    int64_t ended_ns();  // 0: it is still in progress

   private:
    friend class Link;
    Passage(Work inner, int64_t bytes, int priority, Link& link)
        : inner_(std::move(inner)), bytes_(bytes), priority_(priority), link_(link) {}
    Work inner_;  // used by the link until the call is through, then by the waiting rank
    int64_t bytes_;
    int priority_;
    int64_t due_ns_ = 0;
    bool through_ = false;
    Link& link_;
  };
  std::shared_ptr<Passage> send(Work inner, int64_t bytes, int priority);

  // For tables: how long the link was busy with bytes, since it was made.
  double busy_s() const;

 private:
  void keep_time();
  void start_next(int64_t now);
  void end_due(int64_t now);

  const LinkOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Passage>> gathering_;  // calls to which not all ranks have come
  std::deque<std::shared_ptr<Passage>> ready_;      // calls that wait for the link
  std::vector<std::shared_ptr<Passage>> under_way_;
  int64_t free_ns_ = 0;  // when the bytes of the last call are through
  int64_t busy_ns_ = 0;
  bool ending_ = false;
  Worker worker_{"delayed link"};  // the last member, because it must be destroyed first
};

}  // namespace longhaul::comm
