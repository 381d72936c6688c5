// VirtualCluster: the machines of a simulation (simulation.h): daemons that follow the protocol, ranks that
// do steps together, checkpoints in the memory of nodes and on disk. It does not know the driver: messages of
// its daemons go to `on_message`, and messages of the driver come through deliver().
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "control/driver/driver_core.h"
#include "control/simulation/simulation.h"

namespace longhaul::control {

// VirtualTime runs actions in the order of their times; actions with the same time run in the order in which
// they were added.
class VirtualTime {
 public:
  double now_s = 1000;
  void at(double time_s, std::function<void()> what) {
    queue_.push({std::max(time_s, now_s), next_++, std::move(what)});
  }
  void after(double delay_s, std::function<void()> what) { at(now_s + delay_s, std::move(what)); }
  bool step();  // false: nothing is left

 private:
  struct Happening {
    double time_s;
    uint64_t order;
    std::function<void()> what;
    bool operator<(const Happening& other) const {
      return time_s != other.time_s ? time_s > other.time_s : order > other.order;
    }
  };
  std::priority_queue<Happening> queue_;
  uint64_t next_ = 0;
};

class Dice {
 public:
  Dice(uint64_t seed, std::string_view name) : stream_(seed, name) {}
  double uniform() { return stream_.uniform(next_++); }
  double about(double mean) { return mean * (0.5 + uniform()); }
  double exponential(double mean) { return -mean * std::log1p(-uniform()); }
  int64_t below(int64_t bound) {
    return static_cast<int64_t>(stream_.below(next_++, static_cast<uint64_t>(bound)));
  }

 private:
  RandomStream stream_;
  uint64_t next_ = 0;
};

// Hash of the samples that a run has trained on, after one more step.
uint64_t hash_after_step(uint64_t hash, int64_t step, const std::vector<data::SampleRange>& skip);

class VirtualCluster {
 public:
  using OnMessage = std::function<void(const std::string& node, const NodeMessage& message)>;
  using OnLost = std::function<void(const std::string& node)>;
  VirtualCluster(const SimulationOptions& options, VirtualTime& time, std::vector<std::string>& broken);

  OnMessage on_message;                                  // from a daemon that is connected
  OnLost on_lost;                                        // a connection is lost
  std::function<void(const std::string& node)> on_died;  // the daemon's process died, its machine did not

  void begin();                                                         // starts all daemons
  void deliver(const std::string& node, const DriverMessage& message);  // a message from the driver, now
  void driver_gone();                                                   // all its connections are lost
  void cut(const std::string& node) { disconnect(node); }               // the driver closes the connection
  void start_daemon(const std::string& node);
  void skip(std::vector<data::SampleRange> ranges) { skip_file_ = std::move(ranges); }

  // Injected faults. Each function returns false if there was nothing to inject the fault into.
  bool end_rank(int64_t rank, int64_t status, bool out_of_memory);
  bool end_all(int64_t status);
  bool hang(int64_t rank, bool stopped);
  bool kill_daemon(const std::string& node);
  bool supervise(const std::string& node);  // its daemon, which has died, is restarted immediately
  bool lose_node(const std::string& node, double back_after_s);
  bool partition(const std::string& node, double for_s);
  bool report(const std::string& node, const HealthReport& report);

  std::vector<std::string> nodes() const;
  std::optional<int64_t> any_rank(Dice& dice, const std::string& not_on = "") const;  // one that trains
  std::string node_of_rank(int64_t rank) const;
  bool training() const { return run_.training; }
  bool idle() const { return !run_.training; }
  int64_t generation() const { return run_.generation; }
  int64_t step() const { return run_.step; }
  int64_t living_ranks() const;
  int64_t newest_usable() const;  // the newest step that can be loaded
  uint64_t samples_hash() const { return run_.hash; }
  int64_t hanging_rank() const { return hanging_; }
  std::optional<int64_t> deadly;  // sample that kills the ranks

 private:
  struct RankHere {
    int64_t rank = 0, generation = 0, pid = 0;
    bool alive = true, hangs = false, stopped = false, dying = false;
    double since_s = 0;  // of its last progress
    double silent_since_s = 0;
  };
  struct Machine {
    bool up = true, daemon = false, connected = false, reachable = true, spare = false;
    int64_t pid = 0, boot = 1, connection = 0;
    int64_t generation = 0;
    double alone_since_s = 0;
    std::map<int64_t, RankHere> ranks;
    std::vector<RankExited> ended;
  };
  // Run: the generation that was started last, as its ranks see it.
  struct Run {
    int64_t generation = 0, world = 0;
    std::set<int64_t> started;
    bool training = false, broken = false, keeps = true;
    int64_t step = -1, resumed = -1;
    uint64_t hash = 0;
    std::vector<data::SampleRange> skip;
    std::set<std::string> nodes;
  };
  struct Saved {
    uint64_t hash = 0;
    std::vector<data::SampleRange> skip;
    std::set<std::string> holders;  // nodes that hold it in memory; empty: it is on disk
    int64_t generation = 0;
  };

  void connect(const std::string& name);
  void disconnect(const std::string& name);
  void say(const std::string& name, NodeMessage message);
  NodeBeat beat_of(const Machine& machine) const;
  RankBeat rank_beat(const RankHere& rank) const;
  void beat(const std::string& name, int64_t connection);
  void start(const std::string& name, const StartRanks& start);
  void stop(const std::string& name, const StopRanks& stop);
  void ends(const std::string& name, int64_t rank, int64_t generation, int64_t status, bool out_of_memory,
            bool stopped);
  void peers_notice(int64_t generation);
  void load(int64_t generation);
  void next_step(int64_t generation);
  void step_done(int64_t generation);
  void all_done(int64_t generation);
  void save();
  void complain(const std::string& what);
  RankHere* find(int64_t rank);
  bool whole() const;  // all ranks of the run live and make progress

  const SimulationOptions& options_;
  VirtualTime& time_;
  std::vector<std::string>& broken_;
  Dice dice_;
  std::map<std::string, Machine> machines_;
  Run run_;
  std::map<int64_t, Saved> memory_, disk_;
  std::vector<data::SampleRange> skip_file_;
  bool reading_deadly_ = false;
  int64_t next_pid_ = 100, hanging_ = -1, newest_commit_generation_ = 0;
};

}  // namespace longhaul::control
