// RankHost: the ranks of one node. It starts them as processes of their own, with what they must know in
// their environment, reads their boards, notices their ends, and ends them. It decides nothing: the driver
// does.
//
//   RankHost host(loop, children, {.node = "node-0", .folder = "/dev/shm/longhaul-…/node-0"}, [&](
//       const RankExited& exited) { … });
//   host.set_command(command);  host.start(message);  host.stop(message);  host.running();
//
// A rank is started only when no rank of an earlier generation is left, so that no file has two writers. The
// folder's memory/ holds checkpoints that outlive ranks, and boards/ holds their last reports. Only the
// loop's thread may use it. Source: docs/sources/reliability.md §5.1, §5.2.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/net/event_loop.h"
#include "base/process/children.h"
#include "control/node/memory_deaths.h"
#include "control/sensors/sensors.h"
#include "control/wire/messages.h"
#include "observe/board/node_lease.h"
#include "observe/board/rank_board.h"

namespace longhaul::control {

struct RankHostOptions {
  std::string node;
  std::filesystem::path folder;      // in shared memory
  std::string program;               // the path of this program
  std::filesystem::path root = "/";  // where proc, sys and dev of this machine are
};

class RankHost {
 public:
  RankHost(EventLoop& loop, Children& children, RankHostOptions options,
           std::function<void(const RankExited&)> on_exit);

  void set_command(RunCommand command) { command_ = std::move(command); }
  void start(const StartRanks& start);
  void stop(const StopRanks& stop);
  void signal_all(int signal) const;
  // Sends SIGUSR2 to the ranks that handle it; their stacks are on their boards a moment later.
  void ask_for_stacks() const;
  void end_all();      // immediately
  void renew_lease();  // ranks end themselves if this is not called for half a minute

  int64_t generation() const { return generation_; }
  bool any_running() const;
  bool ending() const { return ending_ && any_running(); }  // they were given time to end by themselves
  std::vector<RankBeat> running() const;
  const std::vector<RankExited>& ended() const { return ended_; }  // of this generation
  // Evidence of the running ranks as they are now: their boards and /proc, and their stacks if those were
  // asked for. The returned function formats it, in any thread: it looks up the names of functions, which
  // takes seconds.
  std::function<std::vector<Evidence>()> evidence() const;
  std::vector<int64_t> processes() const;  // processes of ranks that have not ended, of any generation
  std::vector<RankLog> logs() const;       // and where they write
  // a rank has completed a step, or begun its first, since the last call
  bool moved() const;

 private:
  struct Rank {
    int64_t rank = 0, generation = 0;
    pid_t pid = 0;
    int64_t started_ns = 0;
    std::filesystem::path board, log;
    int64_t log_begins = 0;  // where the lines of this generation begin in its log
    bool stopped = false;    // by this node
    mutable int64_t resumed_step = -1;
    mutable std::optional<observe::BoardReader> reader;
  };
  const observe::BoardReader* board_of(const Rank& rank) const;
  void start_now(const StartRanks& start);
  void start_one(const StartRanks& start, size_t local);
  void never_started(const StartRanks& start);
  std::vector<std::string> words(const StartRanks& start) const;
  std::vector<std::string> environment(const StartRanks& start, size_t local, const Rank& rank) const;
  void on_end(int64_t number, int64_t generation, int status);
  RankExited exited(const Rank& rank, int status);

  EventLoop& loop_;
  Children& children_;
  RankHostOptions options_;
  observe::NodeLease lease_;
  MemoryDeaths deaths_;
  RunCommand command_;
  std::function<void(const RankExited&)> on_exit_;
  int64_t generation_ = 0;
  bool ending_ = false;
  std::vector<Rank> ranks_;
  std::vector<RankExited> ended_;
  // waits until the ranks of an earlier generation are gone
  std::optional<StartRanks> waiting_;
  mutable std::vector<std::pair<int64_t, int64_t>> last_seen_;  // rank and step
};

}  // namespace longhaul::control
