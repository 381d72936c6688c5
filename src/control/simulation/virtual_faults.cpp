// The faults that can be injected into a virtual cluster (virtual_cluster.h).
#include <algorithm>

#include "control/simulation/virtual_cluster.h"

namespace longhaul::control {

VirtualCluster::RankHere* VirtualCluster::find(int64_t number) {
  for (auto& [name, machine] : machines_) {
    const auto found = machine.ranks.find(number);
    if (found != machine.ranks.end() && found->second.alive && !found->second.dying &&
        found->second.generation == run_.generation)
      return &found->second;
  }
  return nullptr;
}

std::string VirtualCluster::node_of_rank(int64_t number) const {
  for (const auto& [name, machine] : machines_) {
    const auto found = machine.ranks.find(number);
    if (found != machine.ranks.end() && found->second.generation == run_.generation) return name;
  }
  return "";
}

std::optional<int64_t> VirtualCluster::any_rank(Dice& dice, const std::string& not_on) const {
  std::vector<int64_t> living;
  for (const auto& [name, machine] : machines_) {
    if (name == not_on || !machine.reachable) continue;
    for (const auto& [number, rank] : machine.ranks) {
      if (rank.alive && !rank.dying && !rank.hangs && !rank.stopped && rank.generation == run_.generation)
        living.push_back(number);
    }
  }
  if (living.empty()) return std::nullopt;
  return living[static_cast<size_t>(dice.below(static_cast<int64_t>(living.size())))];
}

bool VirtualCluster::end_rank(int64_t number, int64_t status, bool out_of_memory) {
  const RankHere* rank = find(number);
  if (rank == nullptr) return false;
  ends(node_of_rank(number), number, run_.generation, status, out_of_memory, false);
  return true;
}

bool VirtualCluster::end_all(int64_t status) {
  bool any = false;
  for (int64_t rank = 0; rank < run_.world; ++rank) any |= end_rank(rank, status, false);
  return any;
}

bool VirtualCluster::hang(int64_t number, bool stopped) {
  RankHere* rank = find(number);
  if (rank == nullptr || !run_.training) return false;
  rank->hangs = true;
  rank->stopped = stopped;
  rank->silent_since_s = time_.now_s;
  hanging_ = number;
  return true;
}

bool VirtualCluster::kill_daemon(const std::string& name) {
  Machine& machine = machines_.at(name);
  if (!machine.daemon) return false;
  const bool told = machine.reachable;
  machine.daemon = machine.connected = false;
  ++machine.connection;
  for (auto& [number, rank] : machine.ranks) {
    if (!rank.alive) continue;
    rank.alive = false;
    if (rank.generation == run_.generation) run_.broken = true;
    peers_notice(rank.generation);
  }
  machine.ranks.clear();
  if (told) {
    time_.after(dice_.about(options_.message_s), [this, name] {
      if (on_died) on_died(name);
    });
  }
  return true;
}

bool VirtualCluster::supervise(const std::string& name) {
  start_daemon(name);
  return true;
}

bool VirtualCluster::lose_node(const std::string& name, double back_after_s) {
  Machine& machine = machines_.at(name);
  if (!machine.up) return false;
  machine.up = machine.daemon = machine.connected = false;
  ++machine.connection;
  for (auto& [number, rank] : machine.ranks) {
    if (rank.alive) peers_notice(rank.generation);
    rank.alive = false;
    if (rank.generation == run_.generation) run_.broken = true;
  }
  machine.ranks.clear();
  // The contents of its memory are lost: a step that has lost two nodes is no longer complete.
  for (auto saved = memory_.begin(); saved != memory_.end();) {
    const size_t had = saved->second.holders.size();
    saved->second.holders.erase(name);
    const bool whole = saved->second.holders.size() == had ||
                       (had > 1 && saved->second.holders.size() + 1 >= run_.nodes.size());
    saved = whole ? std::next(saved) : memory_.erase(saved);
  }
  if (on_lost) on_lost(name);
  time_.after(back_after_s, [this, name] {
    Machine& again = machines_.at(name);
    again.up = true;
    ++again.boot;
    start_daemon(name);
  });
  return true;
}

bool VirtualCluster::partition(const std::string& name, double for_s) {
  Machine& machine = machines_.at(name);
  if (!machine.reachable || !machine.daemon) return false;
  machine.reachable = false;
  // Nothing was heard from the driver.
  time_.after(options_.policy.node_silent_s, [this, name, connection = machine.connection] {
    const Machine& cut_off = machines_.at(name);
    if (!cut_off.reachable && cut_off.connection == connection) disconnect(name);
  });
  time_.after(for_s, [this, name] {
    Machine& again = machines_.at(name);
    again.reachable = true;
    disconnect(name);
  });
  return true;
}

bool VirtualCluster::report(const std::string& name, const HealthReport& report) {
  const Machine& machine = machines_.at(name);
  if (!machine.connected || !machine.reachable) return false;
  say(name, report);
  return true;
}

int64_t VirtualCluster::living_ranks() const {
  int64_t living = 0;
  for (const auto& [name, machine] : machines_) {
    living += std::ranges::count_if(machine.ranks, [](const auto& rank) { return rank.second.alive; });
  }
  return living;
}

}  // namespace longhaul::control
