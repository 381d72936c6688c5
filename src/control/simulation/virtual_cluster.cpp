#include "control/simulation/virtual_cluster.h"

#include <fmt/format.h>

#include <algorithm>

#include "control/driver/batch_search.h"
#include "control/node/lease.h"

namespace longhaul::control {
namespace {

constexpr int64_t kBatch = 8;  // samples of a step
constexpr int64_t kKilled = 137, kCrashed = 139, kLostPeerCode = 69;

uint64_t mixed(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15ULL;
  return hash ^ (hash >> 29);
}

}  // namespace

bool VirtualTime::step() {
  if (queue_.empty()) return false;
  Happening next = queue_.top();
  queue_.pop();
  now_s = next.time_s;
  next.what();
  return true;
}

uint64_t hash_after_step(uint64_t hash, int64_t step, const std::vector<data::SampleRange>& skip) {
  for (int64_t row = 0; row < kBatch; ++row)
    hash = mixed(hash, static_cast<uint64_t>(sample_at(step * kBatch + row, skip)) + 1);
  return hash;
}

VirtualCluster::VirtualCluster(const SimulationOptions& options, VirtualTime& time,
                               std::vector<std::string>& broken)
    : options_(options), time_(time), broken_(broken), dice_(options.seed, "cluster") {
  for (int64_t i = 0; i < options.nodes + options.spares; ++i)
    machines_[fmt::format("node-{}", i)].spare = i >= options.nodes;
  disk_[0] = {};
}

void VirtualCluster::complain(const std::string& what) {
  if (broken_.size() < 20) broken_.push_back(fmt::format("{:.3f} s: {}", time_.now_s, what));
}

std::vector<std::string> VirtualCluster::nodes() const {
  std::vector<std::string> names;
  for (const auto& [name, machine] : machines_) names.push_back(name);
  return names;
}

// ---- daemons

void VirtualCluster::begin() {
  for (auto& [name, machine] : machines_) start_daemon(name);
}

void VirtualCluster::start_daemon(const std::string& name) {
  time_.after(dice_.about(0.3), [this, name] {
    Machine& machine = machines_.at(name);
    if (!machine.up || machine.daemon) return;
    machine.daemon = true;
    machine.pid = next_pid_++;
    machine.ended.clear();
    machine.ranks.clear();
    machine.generation = 0;
    connect(name);
  });
}

void VirtualCluster::connect(const std::string& name) {
  Machine& machine = machines_.at(name);
  if (!machine.up || !machine.daemon || machine.connected) return;
  if (!machine.reachable || !on_message) {  // tries again
    const double alone_s = time_.now_s - machine.alone_since_s;
    if (alone_s > options_.policy.lease_s &&
        lease_is_over(beat_of(machine).running, alone_s, options_.policy.lease_s))
      stop(name, StopRanks{.generation = INT64_MAX, .reason = "alone"});
    time_.after(dice_.about(0.5), [this, name] { connect(name); });
    return;
  }
  machine.connected = true;
  const int64_t connection = ++machine.connection;
  const NodeBeat now = beat_of(machine);
  NodeHello hello{.version = "sim",
                  .run = "sim",
                  .node = name,
                  .host = name,
                  .boot_id = std::to_string(machine.boot),
                  .address = name,
                  .pid = machine.pid};
  hello.slots = options_.ranks_per_node;
  hello.spare = machine.spare;
  hello.free_port = 20000;
  hello.generation = machine.generation;
  hello.running = now.running;
  hello.ended = now.ended;
  say(name, std::move(hello));
  time_.after(options_.policy.beat_every_s, [this, name, connection] { beat(name, connection); });
}

void VirtualCluster::disconnect(const std::string& name) {
  Machine& machine = machines_.at(name);
  if (!machine.connected) return;
  machine.connected = false;
  machine.alone_since_s = time_.now_s;
  ++machine.connection;
  time_.after(dice_.about(0.5), [this, name] { connect(name); });
}

void VirtualCluster::driver_gone() {
  on_message = nullptr;
  for (auto& [name, machine] : machines_) disconnect(name);
}

void VirtualCluster::say(const std::string& name, NodeMessage message) {
  const int64_t connection = machines_.at(name).connection;
  time_.after(dice_.about(options_.message_s), [this, name, connection, message = std::move(message)] {
    const Machine& machine = machines_.at(name);
    if (machine.connected && machine.connection == connection && machine.reachable && on_message)
      on_message(name, message);
  });
}

void VirtualCluster::beat(const std::string& name, int64_t connection) {
  Machine& machine = machines_.at(name);
  if (!machine.connected || machine.connection != connection || !machine.daemon) return;
  if (machine.reachable) say(name, beat_of(machine));
  time_.after(options_.policy.beat_every_s, [this, name, connection] { beat(name, connection); });
}

RankBeat VirtualCluster::rank_beat(const RankHere& rank) const {
  RankBeat beat{.rank = rank.rank, .generation = rank.generation, .pid = rank.pid};
  beat.beat_age_s = rank.stopped ? time_.now_s - rank.silent_since_s : 0.1;
  beat.progress_age_s = beat.phase_age_s = time_.now_s - rank.since_s;
  const bool current = rank.generation == run_.generation && run_.training;
  beat.step = current ? run_.step : -1;
  beat.resumed_step = current ? run_.resumed : -1;
  beat.phase = !current ? "load" : rank.hangs || hanging_ < 0 ? "forward" : "communication";
  beat.collective = {.group = "world",
                     .name = "gradients",
                     .kind = "all_reduce",
                     .state = rank.hangs ? "completed" : "started",
                     .sequence = beat.step - (rank.hangs ? 1 : 0)};
  beat.step_seconds = options_.step_s;
  return beat;
}

NodeBeat VirtualCluster::beat_of(const Machine& machine) const {
  NodeBeat beat{.generation = machine.generation, .free_port = 20000, .running = {}, .ended = machine.ended};
  for (const auto& [number, rank] : machine.ranks) {
    if (rank.alive) beat.running.push_back(rank_beat(rank));
  }
  return beat;
}

void VirtualCluster::deliver(const std::string& name, const DriverMessage& message) {
  const auto found = machines_.find(name);
  if (found == machines_.end() || !found->second.connected || !found->second.reachable) return;
  const int64_t connection = found->second.connection;
  time_.after(dice_.about(options_.message_s), [this, name, connection, message] {
    Machine& machine = machines_.at(name);
    if (!machine.connected || machine.connection != connection || !machine.reachable || !machine.daemon)
      return;
    if (const auto* begin = std::get_if<StartRanks>(&message)) start(name, *begin);
    if (const auto* end = std::get_if<StopRanks>(&message)) stop(name, *end);
    if (const auto* checks = std::get_if<RunChecks>(&message)) {
      CheckResults results{.id = checks->id,
                           .suite = checks->suite,
                           .checks = {{.name = "disk"}, {.name = "gemm", .signature = "same"}}};
      time_.after(dice_.about(2), [this, name, results] {
        if (machines_.at(name).connected) say(name, results);
      });
    }
    if (std::holds_alternative<GatherEvidence>(message))
      say(name, Evidence{.generation = machine.generation, .last = true});
    if (std::holds_alternative<Release>(message)) {
      stop(name, StopRanks{.generation = INT64_MAX, .reason = "released"});
      machine.daemon = machine.connected = false;
      ++machine.connection;
    }
  });
}

// ---- ranks

void VirtualCluster::start(const std::string& name, const StartRanks& start) {
  Machine& machine = machines_.at(name);
  if (start.generation <= machine.generation)
    return complain(
        fmt::format("{} is to start generation {} after {}", name, start.generation, machine.generation));
  for (const auto& [number, rank] : machine.ranks) {
    if (rank.alive)
      complain(fmt::format("rank {} of generation {} still lives on {} when generation {} starts", number,
                           rank.generation, name, start.generation));
  }
  machine.generation = start.generation;
  machine.ranks.clear();
  machine.ended.clear();
  if (start.generation > run_.generation) {
    run_ = {.generation = start.generation, .world = start.world};
    run_.skip = skip_file_;
    run_.keeps = !start.probe;
    hanging_ = -1;
  }
  for (const int64_t rank : start.ranks) {
    machine.ranks[rank] = {
        .rank = rank, .generation = start.generation, .pid = next_pid_++, .since_s = time_.now_s};
    time_.after(dice_.about(options_.start_s), [this, name, rank, generation = start.generation] {
      const auto& here = machines_.at(name).ranks;
      const auto found = here.find(rank);
      if (found == here.end() || !found->second.alive || found->second.generation != generation ||
          generation != run_.generation)
        return;
      run_.started.insert(rank);
      run_.nodes.insert(name);
      if (static_cast<int64_t>(run_.started.size()) == run_.world)
        time_.after(dice_.about(options_.load_s), [this, generation] { load(generation); });
    });
  }
}

void VirtualCluster::stop(const std::string& name, const StopRanks& stop) {
  Machine& machine = machines_.at(name);
  for (auto& [number, rank] : machine.ranks) {
    if (!rank.alive || rank.dying || rank.generation > stop.generation) continue;
    rank.dying = true;
    const bool saves = stop.save && run_.training && rank.generation == run_.generation;
    const double delay_s =
        stop.save ? std::min(stop.grace_s, dice_.about(options_.step_s)) : dice_.about(0.02);
    time_.after(delay_s, [this, name, rank = number, generation = rank.generation, saves] {
      if (saves && generation == run_.generation && whole() && run_.training) {  // all of them, once
        save();
        run_.training = false;
      }
      const bool saved = saves && generation == run_.generation && !run_.broken;
      ends(name, rank, generation, saved ? 74 : kKilled, false, true);
    });
  }
}

void VirtualCluster::ends(const std::string& name, int64_t number, int64_t generation, int64_t status,
                          bool out_of_memory, bool stopped) {
  Machine& machine = machines_.at(name);
  const auto found = machine.ranks.find(number);
  if (found == machine.ranks.end() || !found->second.alive || found->second.generation != generation) return;
  found->second.alive = false;
  if (status != 74 && status != 0 && generation == run_.generation) {
    run_.broken = true;
    run_.training = run_.training && stopped;
  }
  RankExited exited{.rank = number,
                    .generation = generation,
                    .pid = found->second.pid,
                    .status = status,
                    .age_s = 0.001,
                    .stopped = stopped,
                    .out_of_memory = out_of_memory};
  exited.step = generation == run_.generation ? run_.step : -1;
  exited.last_words = fmt::format("ended with {}", status);
  if (status == kCrashed) exited.stack = reading_deadly_ ? "loader+0x10" : "forward+0x20";
  machine.ended.push_back(exited);
  if (machine.connected && machine.reachable) say(name, exited);
  if (!stopped && status != 0 && status != 74) peers_notice(generation);
}

// The others lose the connections with a rank that is gone.
void VirtualCluster::peers_notice(int64_t generation) {
  for (auto& [name, machine] : machines_) {
    for (auto& [number, rank] : machine.ranks) {
      if (!rank.alive || rank.dying || rank.stopped || rank.hangs || rank.generation != generation ||
          dice_.uniform() < 0.2)
        continue;
      time_.after(dice_.exponential(0.3), [this, name = name, number = number, generation] {
        const auto& here = machines_.at(name).ranks;
        const auto found = here.find(number);
        if (found != here.end() && found->second.alive && !found->second.dying && !found->second.stopped)
          ends(name, number, generation, kLostPeerCode, false, false);
      });
    }
  }
}

bool VirtualCluster::whole() const {
  int64_t moving = 0;
  for (const auto& [name, machine] : machines_) {
    for (const auto& [number, rank] : machine.ranks)
      moving += rank.alive && rank.generation == run_.generation && !rank.hangs && !rank.stopped ? 1 : 0;
  }
  return moving == run_.world && hanging_ < 0;
}

int64_t VirtualCluster::newest_usable() const {
  return std::max(memory_.empty() ? 0 : memory_.rbegin()->first, disk_.rbegin()->first);
}

void VirtualCluster::load(int64_t generation) {
  if (generation != run_.generation || !whole()) return;
  const int64_t step = newest_usable();
  const Saved& saved = memory_.contains(step) ? memory_.at(step) : disk_.at(step);
  run_.step = run_.resumed = step;
  run_.hash = saved.hash;
  run_.training = true;
  for (auto& [name, machine] : machines_) {
    for (auto& [number, rank] : machine.ranks) rank.since_s = time_.now_s;
  }
  if (step >= options_.steps) return all_done(generation);
  next_step(generation);
}

void VirtualCluster::next_step(int64_t generation) {
  time_.after(dice_.about(options_.step_s), [this, generation] { step_done(generation); });
}

void VirtualCluster::step_done(int64_t generation) {
  if (generation != run_.generation || !run_.training || !whole()) return;
  if (deadly) {
    for (int64_t row = 0; row < kBatch; ++row) {
      if (sample_at(run_.step * kBatch + row, run_.skip) != *deadly) continue;
      reading_deadly_ = true;
      end_all(kCrashed);
      reading_deadly_ = false;
      return;
    }
  }
  run_.hash = hash_after_step(run_.hash, run_.step, run_.skip);
  ++run_.step;
  for (auto& [name, machine] : machines_) {
    for (auto& [number, rank] : machine.ranks) rank.since_s = time_.now_s;
  }
  if (generation < newest_commit_generation_)
    complain(fmt::format("generation {} commits step {} after generation {} did", generation, run_.step,
                         newest_commit_generation_));
  newest_commit_generation_ = generation;
  if (run_.keeps) save();
  if (run_.step < options_.steps) return next_step(generation);
  all_done(generation);
}

void VirtualCluster::all_done(int64_t generation) {
  run_.training = false;
  for (auto& [name, machine] : machines_) {
    for (auto& [number, rank] : machine.ranks) {
      if (!rank.alive || rank.generation != generation) continue;
      time_.after(dice_.about(0.2), [this, name = name, number = number, generation] {
        ends(name, number, generation, 0, false, false);
      });
    }
  }
}

void VirtualCluster::save() {
  const auto same = [&](const std::map<int64_t, Saved>& saved) {
    const auto found = saved.find(run_.step);
    if (found != saved.end() && found->second.skip == run_.skip && found->second.hash != run_.hash)
      complain(fmt::format("step {} was trained on other samples than before", run_.step));
  };
  same(memory_);
  same(disk_);
  memory_.erase(memory_.begin(), memory_.upper_bound(run_.step - 3));
  memory_[run_.step] = {
      .hash = run_.hash, .skip = run_.skip, .holders = run_.nodes, .generation = run_.generation};
  if (run_.step % options_.checkpoint_every == 0)
    disk_[run_.step] = {.hash = run_.hash, .skip = run_.skip, .generation = run_.generation};
}

}  // namespace longhaul::control
