#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "control/driver/driving.h"
#include "control/rank_placement.h"

namespace longhaul::control {
namespace {

// Ranks that all die of the same cause report their own reasons shortly after each other, so they are not
// ended at once.
bool explains_itself(const Fault& fault) {
  return fault.source == Fault::Source::kExit && restart_is_futile(static_cast<ExitCode>(fault.status));
}

// The faults after which a rank's state can be trusted: not those in which a machine or rank computes wrong
// results, nor those in which all ranks fail alike because of what they read.
bool spares_state(const Fault& fault) {
  if (fault.source == Fault::Source::kHang) return !fault.program;
  if (fault.source == Fault::Source::kNodeSilent || fault.source == Fault::Source::kNodeDied) return true;
  if (fault.source != Fault::Source::kExit) return false;
  const auto code = static_cast<ExitCode>(fault.status);
  return fault.status > 128 || code == ExitCode::kCommunication || code == ExitCode::kInternal ||
         code == ExitCode::kHang || code == ExitCode::kOutOfMemory;
}

bool names_a_machine(const Fault& fault) {
  return fault.source != Fault::Source::kExit && fault.source != Fault::Source::kDeadline;
}

}  // namespace

void Driving::fault(Fault fault) {
  if (draining_) {  // nothing is restarted
    say(fault.text);
    drain_failed_ = true;
    if (stopping_ == Stopping::kSaving) stop_ranks(0, false, fault.text);
    return;
  }
  if (state_ == State::kSuspect) {
    faults_.push_back(std::move(fault));
    if (!gathering_ && !analysing_) return;
    gathering_ = analysing_ = false;  // the rank itself has reported the cause
    stop_survivors(faults_.back());
    last_call_s_ = now_s_ + policy_.last_call_s;
    return;
  }
  const bool saving = state_ == State::kRepair && stopping_ == Stopping::kSaving;
  if (!ranks_run() && state_ != State::kDrain && !saving) {
    if (!names_a_machine(fault)) return;  // the ranks are being ended anyway
    Verdict verdict = classify(fault, ledger_, policy_, now_s_);
    open_incidents_.push_back(open(fault, verdict, false));
    return act(fault, verdict);
  }
  note_committed();
  end_generation();
  fault_s_ = now_s_;
  stop_at_last_call_ = explains_itself(fault);
  if (!stop_at_last_call_) stop_survivors(fault);
  last_call_s_ = now_s_ + policy_.last_call_s;
  planned_ = false;
  go(State::kSuspect, fault.text);
  faults_ = {std::move(fault)};
}

// They have no peers for a common save; each can write its state to where the next start finds it.
void Driving::stop_survivors(const Fault& fault) {
  const bool leave = policy_.restarts > 0 && spares_state(fault);
  if (!leave) return stop_ranks(policy_.stop_grace_s, false, fault.text);
  int64_t most = 0;
  for (const auto& [number, rank] : ranks_) most = std::max(most, rank.beat ? rank.beat->resident_bytes : 0);
  stop_ranks(policy_.leave_s + static_cast<double>(most) / policy_.leave_bytes_per_second, false, fault.text,
             true);
}

void Driving::health(const std::string& node, const HealthReport& report) {
  if (!ledger_.nodes.contains(node)) return;
  Fault seen{.source = Fault::Source::kHealth,
             .rank = report.rank,
             .node = node,
             .device = report.device,
             .step = last_step_};
  seen.kind = report.kind;
  seen.number = report.code;
  seen.text = fmt::format("{} reports {}{}{}: {}", node, report.kind,
                          report.code != 0 ? fmt::format(" {}", report.code) : "",
                          report.device.empty() ? "" : " of " + report.device, report.text);
  Verdict verdict = classify(seen, ledger_, policy_, now_s_);
  if (report.kind == "slow_now" && !replaceable(node)) return;  // a restart on the same node would not help
  if (verdict.fault == FaultClass::kNetwork && verdict.action == Action::kEvict && !can_do_without(node)) {
    verdict.action = Action::kTolerate;  // for the same reason
    verdict.why += ", and no other node can take its place";
  }
  if (restarts_ranks(verdict.action) && placed(node)) return fault(std::move(seen));
  if (restarts_ranks(verdict.action)) {
    if (verdict.action == Action::kEvict) evict(node, seen.text);
    return;
  }
  constexpr double kSame_s = 60;  // detectors repeat what they see
  const auto same = [&](const IncidentRecord& incident) {
    return incident.fault() == verdict.fault && incident.node() == node &&
           incident.opened.device == report.device;
  };
  if (verdict.fault != FaultClass::kNetwork && ledger_.count(now_s_, kSame_s, same) > 0) return;
  if (verdict.action == Action::kReplaceAtCheckpoint && ledger_.nodes.at(node).leaving) return;
  const int64_t id = open(seen, verdict, false);
  act(seen, verdict);
  if (verdict.action == Action::kAlarm)
    emit(observe::Alarm{.kind = std::string(name_of(verdict.fault)), .message = seen.text});
  record(IncidentClosed{.id = id, .lost_steps = 0, .recovered = true, .recovered_milliseconds = 0});
  if (const IncidentRecord* incident = ledger_.open_incident(id)) emit(incident->report());
}

void Driving::suspect_hang(const std::string& text, double overdue_s, const std::string& work) {
  stuck_work_ = work;
  overdue_s_ = overdue_s;
  note_committed();
  end_generation();
  fault_s_ = now_s_;
  faults_.clear();
  planned_ = false;
  stop_at_last_call_ = analysing_ = false;
  gathering_ = true;
  gathering_until_s_ = now_s_ + policy_.evidence_s;
  say(text);
  go(State::kSuspect, text);
  for (const NodeRanks& node : ledger_.placement) {
    if (!nodes_[node.node].connected) continue;
    nodes_[node.node].evidence_due = true;
    to(node.node, GatherEvidence{.generation = ledger_.generation});
  }
}

void Driving::suspect() {
  if (gathering_) {
    const bool due = std::ranges::any_of(ledger_.placement, [&](const NodeRanks& node) {
      return nodes_[node.node].connected && nodes_[node.node].evidence_due;
    });
    if (due && now_s_ < gathering_until_s_) return;
    gathering_ = false;
    analysing_ = true;
    gathering_until_s_ = now_s_ + policy_.evidence_s;
    commands_.push_back(
        AnalyseHang{.generation = ledger_.generation, .work = stuck_work_, .at_it = stuck_ranks()});
    return;
  }
  if (analysing_) {
    if (now_s_ >= gathering_until_s_) hang_known({}, false, "");
    return;
  }
  if (now_s_ < last_call_s_) return;
  // Only victims, and a daemon that is away: it will come back, or be declared lost.
  const bool away = std::ranges::any_of(ledger_.placement, [&](const NodeRanks& node) {
    const auto known = ledger_.nodes.find(node.node);
    return !nodes_[node.node].connected && known != ledger_.nodes.end() && known->second.state == "active";
  });
  if (away && std::ranges::all_of(faults_, is_victim)) return;
  judge();
}

// Stopped processes, as it was when the hang was noticed: meanwhile daemons were busy with evidence. Half of
// the time by which alone one is noticed.
std::vector<int64_t> Driving::silent_ranks() const {
  std::vector<int64_t> silent;
  for (const auto& [number, rank] : ranks_) {
    if (rank.state != Rank::State::kRunning || !rank.beat) continue;
    if (rank.beat->beat_age_s + std::max(0.0, fault_s_ - rank.beat_s) > policy_.rank_silent_s / 2)
      silent.push_back(number);
  }
  return silent.size() < ranks_.size() ? silent : std::vector<int64_t>();
}

// Without a better analysis, and where all processes run: ranks that stand anywhere but in waiting; else
// those who are behind in a group's calls.
std::vector<int64_t> Driving::outliers() const {
  std::vector<int64_t> standing, behind;
  std::map<std::string, int64_t> furthest;
  for (const auto& [number, rank] : ranks_) {
    if (rank.state != Rank::State::kRunning || !rank.beat) continue;
    if (rank.beat->phase != "communication") standing.push_back(number);
    int64_t& sequence = furthest[rank.beat->collective.group];
    sequence = std::max(sequence, rank.beat->collective.sequence);
  }
  if (!standing.empty() && standing.size() < ranks_.size()) return standing;
  for (const auto& [number, rank] : ranks_) {
    if (rank.state == Rank::State::kRunning && rank.beat &&
        rank.beat->collective.sequence < furthest[rank.beat->collective.group])
      behind.push_back(number);
  }
  return behind.size() * 2 < ranks_.size() ? behind : std::vector<int64_t>();
}

// The ranks whose work hangs. If these are named, the rank for which they wait is unknown, so all of them
// are.
std::vector<int64_t> Driving::stuck_ranks() const {
  std::vector<int64_t> stuck;
  for (const auto& [number, rank] : ranks_) {
    if (rank.background.contains(stuck_work_)) stuck.push_back(number);
  }
  return stuck;
}

void Driving::hang_known(const std::vector<int64_t>& found, bool program, const std::string& text) {
  std::vector<int64_t> suspects = found;
  if (found.empty() && !program) {
    suspects = silent_ranks();
    if (!suspects.empty()) stuck_work_.clear();  // whatever of its work is late: it does not run
    if (suspects.empty()) suspects = stuck_work_.empty() ? outliers() : stuck_ranks();
  }
  Fault seen{.source = Fault::Source::kHang,
             .step = last_step_,
             .program = program,
             .text = text,
             .age_s = 0,
             .overdue_s = overdue_s_,
             .ranks = suspects};
  seen.kind = stuck_work_;
  std::set<std::string> nodes;
  for (const int64_t rank : suspects) nodes.insert(node_of(ledger_.placement, rank));
  // If all ranks hang in it, the cause is more likely something that they share than a node.
  const bool all = !stuck_work_.empty() && suspects.size() == ranks_.size() && suspects.size() > 1;
  if (nodes.size() == 1 && !all) seen.node = *nodes.begin();
  if (suspects.size() == 1) seen.rank = suspects.front();
  if (program) seen.trace = "desync " + text.substr(0, 200);
  for (const auto& [number, rank] : ranks_) {
    if (!stuck_work_.empty()) {
      const auto stuck = rank.background.find(stuck_work_);
      seen.age_s = std::max(seen.age_s, stuck == rank.background.end() ? 0 : stuck->second);
    } else if (rank.beat) {
      seen.age_s = std::max(
          seen.age_s, std::min(rank.beat->progress_age_s, rank.beat->phase_age_s + policy_.first_step_s));
    }
  }
  if (!stuck_work_.empty()) {
    seen.text = fmt::format("'{}' does not end{}{}{}", stuck_work_,
                            suspects.empty() ? "" : fmt::format(" on rank {}", fmt::join(suspects, ", ")),
                            text.empty() ? "" : ": ", text);
  } else if (seen.text.empty()) {
    seen.text = suspects.empty() ? std::string("all ranks wait, and nobody stands out")
                                 : fmt::format("all wait for rank {}", fmt::join(suspects, ", "));
  }
  gathering_ = analysing_ = false;
  faults_.push_back(std::move(seen));
  stop_survivors(faults_.back());
  judge();
}

// The earliest fault that is no consequence; a machine's report about itself explains why its ranks died.
Fault Driving::root_cause() const {
  Fault root = first_cause(faults_);
  if (!names_a_machine(root)) {
    const auto machine = std::ranges::find_if(
        faults_, [&](const Fault& fault) { return names_a_machine(fault) && fault.node == root.node; });
    if (machine != faults_.end()) root = *machine;
  }
  for (const Fault& other : faults_) {
    const bool same = other.rank >= 0 && other.rank != root.rank && !root.trace.empty() &&
                      other.trace == root.trace && !is_victim(other);
    if (same) root.ranks.push_back(other.rank);
  }
  return root;
}

void Driving::judge() {
  const Fault root = root_cause();
  const auto again = [&](const Fault& other) {
    return is_victim(other) || (other.rank == root.rank && other.node == root.node) ||
           std::ranges::find(root.ranks, other.rank) != root.ranks.end() ||
           (names_a_machine(root) && other.node == root.node);
  };
  std::vector<Fault> others;
  std::ranges::copy_if(faults_, std::back_inserter(others),
                       [&](const Fault& other) { return !again(other); });
  faults_.clear();
  if (stop_at_last_call_) stop_ranks(policy_.stop_grace_s, false, root.text);
  if (ledger_.search.active && !root.trace.empty() && root.trace == ledger_.search.trace)
    return probe_died(root);
  if (over_already(root)) return;
  Verdict verdict = classify(root, ledger_, policy_, now_s_);
  if (!pay(root, verdict)) return;
  act(root, verdict);
  open_incidents_.push_back(open(root, verdict, true));
  for (const Fault& other : others) {
    Verdict beside = classify(other, ledger_, policy_, now_s_);
    if (!restarts_ranks(beside.action)) beside.action = Action::kRestart;
    act(other, beside);
    open_incidents_.push_back(open(other, beside, false));
  }
  const int64_t without_progress = ledger_.cycles;
  not_before_s_ = now_s_;
  if (without_progress > 1) {
    not_before_s_ += std::min(
        policy_.back_off_most_s,
        policy_.back_off_s * std::exp2(static_cast<double>(std::min<int64_t>(without_progress - 2, 30))));
  }
  if (verdict.action == Action::kSearchBatch) {
    record(begin_search(root.step, root.trace, plan_, ledger_.skipped));
    say(fmt::format("ranks die of what they read after step {}: looking for the samples among {} to {}",
                    root.step, ledger_.search.begin, ledger_.search.end - 1));
  }
  go(checking_.empty() ? State::kRepair : State::kDiagnose,
     fmt::format("{}: {}", name_of(verdict.fault), root.text));
}

// A fault after the last checkpoint loses nothing: a restart would do no more work. But a report of a machine
// about itself may mean that the state is wrong.
bool Driving::over_already(const Fault& root) {
  const bool state_is_good = root.source != Fault::Source::kHealth && root.source != Fault::Source::kCheck;
  // Ranks that were refused at their start have a reason to report that.
  const bool trained = ledger_.resumed_step >= 0;
  if (plan_.steps <= 0 || committed_ < plan_.steps || !state_is_good || !trained) return false;
  note_committed();
  Verdict verdict = classify(root, ledger_, policy_, now_s_);
  verdict.action = Action::kTolerate;
  verdict.why = "all steps are done and saved";
  open_incidents_.push_back(open(root, verdict, false));
  finish(State::kDone, ExitCode::kDone,
         fmt::format("all {} steps are done and saved; behind them: {}", plan_.steps, root.text));
  return true;
}

// Whether the run may continue after this fault; if not, it has ended on return.
bool Driving::pay(const Fault& root, const Verdict& verdict) {
  const auto end = [&](ExitCode code, const std::string& why, Action action) {
    Verdict last = verdict;
    last.action = action;
    last.why = why;
    open_incidents_.push_back(open(root, last, false));
    finish(State::kFailed, code,
           fmt::format("{}: {}{}{}", name_of(verdict.fault), root.text, why.empty() ? "" : "; ", why),
           root.rank);
    return false;
  };
  const auto own_code = [&] {
    return root.status > 0 ? static_cast<ExitCode>(root.status) : ExitCode::kHang;
  };
  if (verdict.action == Action::kEnd) return end(verdict.code, verdict.why, Action::kEnd);
  if (policy_.restarts == 0) return end(own_code(), "no restarts were asked for", Action::kEnd);
  if (verdict.action == Action::kStop) return end(verdict.code, verdict.why, Action::kStop);
  if (ledger_.budget_left(now_s_, policy_) < 1) {
    return end(
        ExitCode::kDoNotRestart,
        fmt::format("more than {} restarts in {:.0f} h", policy_.restarts, policy_.restarts_window_s / 3600),
        Action::kStop);
  }
  const bool progress = ledger_.committed_step > ledger_.committed_at_last_fault;
  // A disk may be full for an hour: the pauses grow meanwhile, and only the restart budget ends the run.
  const bool program = (!names_a_machine(root) && verdict.fault != FaultClass::kStorage) ||
                       verdict.fault == FaultClass::kHang || verdict.fault == FaultClass::kStuckWork ||
                       verdict.fault == FaultClass::kUserCode;
  if (program && !progress && verdict.action != Action::kSearchBatch && !ledger_.search.active &&
      ledger_.cycles + 1 >= policy_.cycles_without_progress) {
    return end(ExitCode::kDoNotRestart,
               fmt::format("{} faults without a newer checkpoint than step {}", ledger_.cycles + 1,
                           ledger_.committed_step),
               Action::kStop);
  }
  return true;
}

int64_t Driving::open(const Fault& fault, const Verdict& verdict, bool restarts) {
  IncidentOpened opened{.id = ledger_.incident_count + 1,
                        .generation = ledger_.generation,
                        .rank = fault.rank,
                        .step = fault.step};
  opened.fault = std::string(name_of(verdict.fault));
  opened.node = fault.node;
  opened.device = fault.device;
  opened.evidence = fault.text;
  opened.action = std::string(name_of(verdict.action)) + (verdict.why.empty() ? "" : ": " + verdict.why);
  std::set<int64_t> ranks(fault.ranks.begin(), fault.ranks.end());
  if (fault.rank >= 0) ranks.insert(fault.rank);
  for (const int64_t rank : ranks) opened.suspects.push_back(fmt::format("rank {}", rank));
  if (!fault.node.empty()) opened.suspects.push_back(fault.node);
  opened.trace = fault.trace;
  opened.status = fault.status;
  opened.restarts = restarts;
  opened.waited_s = state_ == State::kSuspect ? now_s_ - fault_s_ : 0;
  opened.detected_milliseconds = fault.age_s * 1e3;
  if (fault.overdue_s) opened.overdue_milliseconds = *fault.overdue_s * 1e3;
  const int64_t id = opened.id;
  IncidentDiagnosed diagnosed{.id = id,
                              .fault = opened.fault,
                              .node = opened.node,
                              .evidence = "",
                              .action = opened.action,
                              .rank = opened.rank};
  diagnosed.suspects = opened.suspects;
  diagnosed.diagnosed_milliseconds = opened.waited_s * 1e3;
  say(fmt::format("fault {} ({}): {} -> {}", id, opened.fault, fault.text, opened.action));
  record(std::move(opened));
  record(std::move(diagnosed));
  return id;
}

// Another node has room for this node's ranks, and is not needed otherwise.
bool Driving::replaceable(const std::string& name) const {
  int64_t needed = 0, free = 0;
  for (const NodeRanks& node : ledger_.placement)
    needed += node.node == name ? static_cast<int64_t>(node.ranks.size()) : 0;
  for (const std::string& other : usable_nodes(true)) {
    if (!placed(other) && !evicting_.contains(other) && !ledger_.nodes.at(other).leaving)
      free += nodes_.at(other).hello.slots;
  }
  for (const std::string& other : evicting_) {
    for (const NodeRanks& node : ledger_.placement)
      free -= node.node == other && other != name ? static_cast<int64_t>(node.ranks.size()) : 0;
  }
  return free >= needed;
}

// The other nodes have room for a width of the run, or the engine provides another.
bool Driving::can_do_without(const std::string& name) const {
  std::set<std::string> gone = evicting_;
  gone.insert(name);
  return widest(slots_of(without(usable_nodes(true), gone))) != nullptr || policy_.replacement_s > 0;
}

// Decides what happens to the node. The verdict is then set to what is really done.
void Driving::act(const Fault& fault, Verdict& verdict) {
  const std::string& name = fault.node;
  if (name.empty() || !ledger_.nodes.contains(name)) return;
  const bool there_again = nodes_[name].connected;  // it has sent a hello since
  if (verdict.action == Action::kRestartNode) {
    if (there_again) {
      verdict.action = Action::kRestart;
      verdict.why = "its daemon has come back";
      return;
    }
    restarting_.insert(name);
    lose(name, fault.text);
    return;
  }
  if (verdict.action == Action::kReplaceAtCheckpoint || verdict.fault == FaultClass::kDeviceDegraded) {
    return set_node(name, ledger_.nodes.at(name).state, fault.text, true);
  }
  if (verdict.fault == FaultClass::kMachine) {
    if (!there_again) lose(name, fault.text);
    const auto before = [&](const IncidentRecord& incident) {
      return incident.fault() == FaultClass::kMachine && incident.node() == name;
    };
    if (ledger_.count(now_s_, policy_.same_place_s, before) >= 1) {
      evicting_.insert(name);
      verdict.why = "the second time: it is not taken again";
    } else {
      verdict.action = Action::kRestart;
      verdict.why = there_again ? "it is there again" : "without this node, until it comes again";
    }
    return;
  }
  if (verdict.action == Action::kDiagnose && policy_.stop_checks) {
    checking_.insert(name);
    return;
  }
  if (verdict.action == Action::kDiagnose) verdict.action = Action::kEvictIfReplaceable;
  if (verdict.action != Action::kEvict && verdict.action != Action::kEvictIfReplaceable) return;
  if (verdict.action == Action::kEvict ? can_do_without(name) : replaceable(name)) {
    verdict.action = Action::kEvict;
    evicting_.insert(name);
  } else {
    verdict.action = Action::kRestart;
    verdict.why +=
        verdict.why.empty() ? "no other node can take its place" : ", and no other node can take its place";
  }
}

}  // namespace longhaul::control
