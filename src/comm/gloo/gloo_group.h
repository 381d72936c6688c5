// One process's part of a Gloo group: how its calls are matched with those of the other ranks
// (gloo_group.cpp, gloo_messages.cpp), and how tensors then move (gloo_collectives.cpp). Internal to Gloo.
#pragma once

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "comm/call.h"
#include "comm/gloo/gloo.h"
#include "comm/gloo/gloo_world.h"

namespace longhaul::comm {

inline constexpr size_t kCarried = 1024;  // bytes of an all_reduce that the first message can carry

// The message that ranks send each other before tensors move. It is sent as it is laid out in memory; all
// ranks run the same program.
struct Notice {
  int64_t left = 0;        // the sender has left the group after this many calls, plus one; 0: it has not
  int64_t rows = 0;        // all_to_all: how many it sends to the receiver
  int64_t next_group = 0;  // split: see GlooWorld::next_group
  uint64_t agreement = 0;  // hash of everything that has to agree
  std::array<char, 160> label{};
  std::array<char, 640> text{};  // the text of describe(), as far as it fits
  alignas(16) std::array<std::byte, kCarried> carried{};
};

// A call in progress: it is done when none of its parts is unfinished, even if it failed.
struct GlooCall {
  Call call;
  std::string label, last;  // the call's label, and that of the group's previous call
  Timeout timeout = kNoTimeout;
  Deadline deadline;
  // Notices sent to and received from each rank; for an exchange, for each transfer.
  std::vector<Notice> said, heard;
  std::vector<std::unique_ptr<Transmission>> saying, hearing;  // null for this rank itself

  void finish_one(bool well);
  bool done();
  bool wait();         // false: it failed
  int64_t ended_ns();  // 0: it is still in progress

 private:
  friend class GlooGroup;
  std::mutex mutex;
  std::condition_variable changed;
  int64_t unfinished = 1;
  int64_t ended = 0;
  bool failed = false;
};

Failure aborted_by(int64_t rank, const std::string& group, const std::string& reason);

class GlooGroup {
 public:
  // `number`: see GlooWorld::next_group. `world_ranks`: the world ranks of the members, in the order of the
  // group.
  GlooGroup(std::shared_ptr<GlooWorld> world, std::string name, int64_t number,
            std::vector<int64_t> world_ranks, int64_t rank);
  ~GlooGroup();

  std::shared_ptr<GlooCall> start(Call call);
  // This rank's groups, by kind; null where it is in none.
  std::vector<std::unique_ptr<GlooGroup>> groups_of(const GlooCall& split) const;
  void abort(const std::string& reason);
  // Throws the failure of the world, for this call.
  [[noreturn]] void throw_failure(const std::string& call) const;
  const std::shared_ptr<GlooWorld>& world() const { return world_; }

  const std::string& name() const { return name_; }
  int64_t rank() const { return rank_; }
  int64_t size() const { return static_cast<int64_t>(world_ranks_.size()); }

 private:
  struct Part {  // bytes that go to a rank, or come from it
    int64_t rank;
    std::byte* bytes;
    size_t count;
  };
  struct Channel {  // messages to one rank, or from it
    Worker worker{"gloo messages"};
  };
  struct OwnMessage {  // to oneself
    std::shared_ptr<GlooCall> call;
    size_t transfer;
  };
  // Tensors of calls of each priority move in a lane of their own: those of priority 0 and above in the
  // first.
  static constexpr int64_t kLanes = 4;
  enum Tag : int64_t { kNotices, kMessageNotices, kMessages, kTensors, kTags = kTensors + kLanes };
  static int64_t lane_of(const Call& call) {
    return std::clamp<int64_t>(-call.options.priority, 0, kLanes - 1);
  }

  // gloo_group.cpp, gloo_messages.cpp
  void start_collective(const std::shared_ptr<GlooCall>& call);
  void start_exchange(const std::shared_ptr<GlooCall>& call);
  Notice notice_of(const GlooCall& call) const;
  void carry_out(const std::shared_ptr<GlooCall>& call);
  // false: it failed, and the world failed with it.
  bool tried(const GlooCall& call, const std::function<bool()>& part);
  bool meet(GlooCall& call);
  bool compare(const GlooCall& call);
  void carry_message(GlooCall& call, size_t transfer);
  bool message_fits(const GlooCall& call, size_t transfer);
  void match_own(const std::shared_ptr<GlooCall>& call, size_t transfer);
  void fail(ErrorFields fields, bool aborted = false);
  void fail_absent(int64_t rank, const Notice& farewell, const std::string& call);
  void fail_late(const GlooCall& call, const std::vector<int64_t>& absent);
  // Waits for bytes that are already moving, to or from a rank of this group; they have the same timeout
  // that the ranks had for coming. False: they did not arrive.
  bool moved(Transmission& transmission, const GlooCall& call, int64_t peer);
  int64_t tag(int64_t which) const { return number_ * kTags + which; }
  int64_t world_rank(int64_t rank) const { return world_ranks_[static_cast<size_t>(rank)]; }

  // gloo_collectives.cpp: false when the world has failed meanwhile
  bool move_tensors(GlooCall& call);
  bool transmit(const std::vector<Part>& sends, const std::vector<Part>& receives, const GlooCall& call);
  bool all_reduce(GlooCall& call);
  bool sum_up(std::byte* values, int64_t elements, const GlooCall& call, std::byte* scratch);
  bool reduce_scatter(GlooCall& call);
  bool all_gather(GlooCall& call);
  bool all_to_all(GlooCall& call);
  bool broadcast(GlooCall& call);

  std::shared_ptr<GlooWorld> world_;
  std::string name_;
  int64_t number_;
  std::vector<int64_t> world_ranks_;
  int64_t rank_;
  int64_t started_ = 0;
  std::string last_;
  std::deque<OwnMessage> own_sends_, own_receives_;
  std::map<std::pair<int64_t, Direction>, Channel> channels_;
  std::map<int64_t, Worker> lanes_;  // all lanes but the first; only `worker_`'s thread uses them
  Worker worker_{"gloo calls"};      // the last member, because it must be destroyed first
};

}  // namespace longhaul::comm
