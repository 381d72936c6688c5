// Rendezvous: matches the calls of the threads of a ThreadGroup. Each group has one Rendezvous; all groups
// split from one ThreadGroup::make share a World, which has their lock and their failure. Internal to
// ThreadGroup.
//
// The n-th collective calls of the members meet in one Operation. The last thread to arrive cuts it into
// pieces, which this thread and all threads that wait in the group carry out; each piece sums in the order
// of ranks, so it does not matter which thread computes it. No thread computes while it holds the lock, and
// a rank that is busy computing is not needed. Sends and receives meet in a queue for each ordered pair of
// ranks.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "comm/call.h"
#include "comm/threads/combine.h"

namespace longhaul::comm {

using Deadline = std::chrono::steady_clock::time_point;
Deadline deadline_after(Timeout timeout);  // from now; Deadline::max() for kNoTimeout

struct Failure {
  ErrorFields fields;    // without `where`, which is filled in with the rank and call that throw it
  bool aborted = false;  // a rank gave up: thrown as Aborted
};

struct World {
  explicit World(int64_t size) : wake(static_cast<size_t>(size)) {}
  std::mutex mutex;  // protects all groups of this world
  // For each rank: something that it may be waiting for has changed.
  std::vector<std::condition_variable> wake;
  std::optional<Failure> failure;  // the first failure; permanent
};

class Rendezvous;
struct Member {
  std::shared_ptr<Rendezvous> group;
  int64_t rank = 0;  // the rank in the group
};

// One collective call of all members, or one member's exchange.
struct Operation {
  std::vector<int64_t> members;  // the members that wait for it, as ranks of the group
  std::vector<Call> calls;       // by rank, for those that have arrived; for an exchange, its own call
  std::vector<bool> arrived;
  int64_t missing = 0;                    // ranks that have not arrived; transfers that have no partner
  int64_t unfinished = 0;                 // pieces that are being carried out, or wait for it
  int64_t ended_ns = 0;                   // when it was done; 0: it is not
  std::vector<std::vector<Member>> made;  // made by a split: for each kind the group of each rank
  bool done() const { return missing == 0 && unfinished == 0; }
  void close();  // call it when the operation is done: releases the tensors
};

// The information that a Work needs about its call.
struct Ticket {
  std::shared_ptr<Operation> operation;
  int64_t rank = 0;
  CallKind kind = CallKind::kBarrier;
  std::string name;
  int64_t sequence = 0;
  Timeout timeout = kNoTimeout;
  Deadline deadline;
};

class Rendezvous {
 public:
  // `world_ranks`: the world ranks of the members, in the order of the group. `timeout`: for calls that
  // have none of their own.
  Rendezvous(std::shared_ptr<World> world, std::string name, std::vector<int64_t> world_ranks,
             Timeout timeout);

  Ticket start(int64_t rank, Call call);
  void wait(const Ticket& ticket);
  bool done(const Ticket& ticket);
  int64_t ended_ns(const Ticket& ticket);
  void leave(int64_t rank, bool by_exception);
  void abort(int64_t rank, const std::string& reason);

  const std::string& name() const { return name_; }
  int64_t size() const { return static_cast<int64_t>(world_ranks_.size()); }

 private:
  using Lock = std::unique_lock<std::mutex>;
  struct Waiting {  // a send or a receive without its partner
    Tensor tensor;
    std::shared_ptr<Operation> operation;
    std::string call;  // "exchange 'forward' (exchange 5)"
  };
  struct Channel {  // from one rank to another; one of the two queues is empty
    std::deque<Waiting> sends, receives;
  };
  struct Ready {
    Piece piece;
    std::vector<std::shared_ptr<Operation>> operations;  // the operations that wait for this piece
  };

  // These functions are called with the lock held; carry_out_one releases it while it computes.
  std::shared_ptr<Operation> arrive(int64_t rank, Call call);
  std::shared_ptr<Operation> post(int64_t rank, Call call);
  void match(int64_t rank, const Transfer& transfer, Waiting mine);
  void complete(const std::shared_ptr<Operation>& operation);
  void make_groups(Operation& operation);
  void hand_out(std::vector<Piece> pieces, const std::vector<std::shared_ptr<Operation>>& operations);
  void carry_out_one(Lock& lock);
  void wake(const Operation& operation);
  void fail(Failure failure);
  void fail_disagreement(const Operation& operation);
  void fail_absent(int64_t rank, const std::string& needed_by);
  void fail_late(const Ticket& ticket);
  [[noreturn]] void throw_failure(int64_t rank, const std::string& call) const;
  std::string absent_text(const Operation& operation) const;
  std::string unmatched_text(const Operation& operation) const;

  std::shared_ptr<World> world_;
  std::string name_;
  std::vector<int64_t> world_ranks_;
  Timeout timeout_;
  std::vector<int64_t> started_;   // by rank: how many collective calls
  std::vector<std::string> last_;  // by rank: the last of them
  std::vector<bool> left_;         // by rank
  // The collective calls that still miss ranks, in order.
  std::deque<std::shared_ptr<Operation>> gathering_;
  int64_t first_gathering_ = 0;                              // sequence number of the first of them
  std::map<std::pair<int64_t, int64_t>, Channel> channels_;  // by (sender, receiver)
  std::deque<Ready> ready_;
};

}  // namespace longhaul::comm
