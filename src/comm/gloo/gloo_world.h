// GlooWorld: what all groups of one process share that came from one join: its wire, its fate, and a thread that waits for nobody:
// `watch` ends waiting whose time is over and looks every 100 ms whether another rank has failed. The store it looks into is at rank 0, and may not answer:
// then another thread waits there (comm/gloo/asked_store.h), and ranks end by their own deadlines, in their own words.
//
// The first failure of any rank is the failure of all: it is written to the store under one key, once, before its rank gives up; whoever
// sees a connection break looks there before calling the other dead. So all ranks say the same.
#pragma once

#include <condition_variable>
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

// As it stands in the store.
std::string to_text(const Failure& failure);
Failure from_text(const std::string& text);

// How long to wait before the n-th question, counted from 0, that many ranks have for one store: soon at first, then so that all of them together ask it no
// more than a thousand times a second.
std::chrono::milliseconds pause_before_asking(int64_t n, int64_t ranks);

class GlooWorld {
 public:
  // The wire is connected. `timeout`: of calls that have none of their own.
  GlooWorld(std::unique_ptr<Wire> wire, int64_t rank, int64_t size, Timeout timeout);
  ~GlooWorld();  // waits until all ranks are here or one has failed: nobody loses the store, or a connection, that he needs
  GlooWorld(const GlooWorld&) = delete;
  GlooWorld& operator=(const GlooWorld&) = delete;

  Wire& wire() { return *wire_; }
  int64_t rank() const { return rank_; }
  Timeout timeout() const { return timeout_; }

  // kLate: the deadline has passed. kFailed: the world has failed, and what is waited for did not come soon after.
  enum class End { kDone, kLate, kFailed };
  struct Patience {
    Deadline deadline = Deadline::max();
    std::chrono::milliseconds after_failure{200};  // what others had started before may still end well
  };
  // `peer`, of the world, and `call` are named when the connection breaks, which is a failure of the world.
  End wait(Transmission& transmission, const Patience& patience, int64_t peer, const std::string& call);

  void fail(Failure failure);  // of this world, unless it has failed already
  std::optional<Failure> failure() const;

  // Numbers of groups: different for any two that share two ranks. All members of a group that splits know the highest of theirs.
  int64_t next_group() const;
  void reserve_groups(int64_t next);

  // Sends that may never be received: they are kept until the end.
  void leave_behind(std::shared_ptr<std::vector<std::byte>> bytes, std::unique_ptr<Transmission> transmission);

 private:
  struct Waiting {
    Transmission* transmission;
    Patience patience;
    Deadline earliest;  // what came in time is found even by who asks late
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
  // Of an answer that is there; what the store throws is one of its own.
  std::optional<Failure> failure_of(std::future<std::optional<Failure>>& answer) const;
  Failure silent_store() const;

  std::shared_ptr<Wire> wire_;
  int64_t rank_, size_;
  Timeout timeout_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Waiting> waiting_;
  std::optional<Failure> failure_;
  Deadline failed_at_ = Deadline::max();
  int64_t next_group_ = 1;
  bool ending_ = false;
  std::vector<std::pair<std::shared_ptr<std::vector<std::byte>>, std::unique_ptr<Transmission>>> left_behind_;
  AskedStore store_;
  Worker watcher_{"gloo watch"};
};

}  // namespace longhaul::comm
