// GlooWorld: the state that all groups of one process from one join share: the wire, the failure state, and
// a `watch` thread that never blocks on another rank: it ends waits whose deadline has passed, and checks
// every 100 ms whether another rank has failed. It checks in the store at rank 0, which may not answer;
// then another thread waits for the store (comm/gloo/asked_store.h), and this rank ends by its own
// deadline, with its own error.
//
// The first failure of any rank is the failure of all: it is written to the store under one key, once,
// before its rank gives up. A rank that sees a connection break looks there before it reports the other
// rank as dead. So all ranks report the same failure.
#pragma once

#include <condition_variable>
#include <functional>
#include <future>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/threads/worker.h"
#include "comm/gloo/asked_store.h"
#include "comm/gloo/wire.h"
#include "comm/threads/rendezvous.h"

namespace longhaul::comm {

// The text form in which the store holds a failure.
std::string to_text(const Failure& failure);
Failure from_text(const std::string& text);

// How long a rank waits before its n-th query, counted from 0, when that many ranks query one store:
// briefly at first, then long enough that all of them together make no more than a thousand queries per
// second.
std::chrono::milliseconds pause_before_asking(int64_t n, int64_t ranks);

class GlooWorld {
 public:
  // The wire must be connected. `timeout`: for calls that have none of their own.
  GlooWorld(std::unique_ptr<Wire> wire, int64_t rank, int64_t size, Timeout timeout);
  // Waits until all ranks have come to this point or one has failed, so that no rank loses the store, or a
  // connection, that it still needs.
  ~GlooWorld();
  GlooWorld(const GlooWorld&) = delete;
  GlooWorld& operator=(const GlooWorld&) = delete;

  Wire& wire() { return *wire_; }
  int64_t rank() const { return rank_; }
  Timeout timeout() const { return timeout_; }

  // kLate: the deadline has passed. kFailed: the world has failed, and the awaited transmission did not
  // finish soon after.
  enum class End { kDone, kLate, kFailed };
  struct Patience {
    Deadline deadline = Deadline::max();
    std::chrono::milliseconds after_failure{200};  // calls that others had started before may still succeed
  };
  // `peer` (a rank of the world) and `call` are named when the connection breaks, which is a failure of the
  // world.
  End wait(Transmission& transmission, const Patience& patience, int64_t peer, const std::string& call);

  void fail(Failure failure);  // makes this world fail, unless it has failed already
  std::optional<Failure> failure() const;
  // Called once, from any thread, when this process learns of the failure; at once if it knows already.
  void on_failure(std::function<void(const Failure&)> tell);

  // Numbers for new groups: any two groups that share two ranks have different numbers. All members of a
  // group that splits agree on the highest next number among them.
  int64_t next_group() const;
  void reserve_groups(int64_t next);

  // Keeps sends that may never be received until the end.
  void leave_behind(std::shared_ptr<std::vector<std::byte>> bytes,
                    std::unique_ptr<Transmission> transmission);

 private:
  struct Waiting {
    Transmission* transmission;
    Patience patience;
    Deadline earliest;  // a transmission that finished in time is found even by a late query
    bool stopped = false;
  };
  using Lock = std::unique_lock<std::mutex>;

  void watch();
  void stop_overdue();
  void adopt(Failure failure);
  void broken(int64_t peer, const std::string& call, const std::string& reason);
  void linger();
  void pause(std::chrono::milliseconds time);
  bool store_says(const char* counter, int64_t count);
  bool tell_store(const char* counter);
  std::future<std::optional<Failure>> ask_for_failure();
  // The failure in an answer that is ready; if the store threw, that is a failure too.
  std::optional<Failure> failure_of(std::future<std::optional<Failure>>& answer) const;
  Failure silent_store() const;

  std::shared_ptr<Wire> wire_;
  int64_t rank_, size_;
  Timeout timeout_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Waiting> waiting_;
  std::optional<Failure> failure_;
  std::vector<std::function<void(const Failure&)>> told_;
  Deadline failed_at_ = Deadline::max();
  int64_t next_group_ = 1;
  bool ending_ = false;
  std::vector<std::pair<std::shared_ptr<std::vector<std::byte>>, std::unique_ptr<Transmission>>> left_behind_;
  AskedStore store_;
  Worker watcher_{"gloo watch"};
};

}  // namespace longhaul::comm
