#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "base/text/text.h"
#include "control/driver/driving.h"
#include "control/rank_placement.h"

namespace longhaul::control {
namespace {

// The text of an error has one line for each of its fields.
std::string in_one_line(const std::string& text) {
  std::string line;
  std::istringstream lines(text);
  for (std::string one; std::getline(lines, one);) {
    std::istringstream words(one);
    std::string joined;
    for (std::string word; words >> word;) joined += (joined.empty() ? "" : " ") + word;
    if (!joined.empty()) line += (line.empty() ? "" : "; ") + joined;
  }
  return line;
}

std::set<std::pair<int64_t, int64_t>> running_of(const std::vector<RankBeat>& beats) {
  std::set<std::pair<int64_t, int64_t>> running;
  for (const RankBeat& beat : beats) running.insert({beat.generation, beat.rank});
  return running;
}

}  // namespace

// The reason why a daemon may not join; empty: it may.
std::string Driving::refusal(const std::string& name, const NodeHello& hello) const {
  if (hello.protocol != kProtocolVersion || hello.version != plan_.version) {
    return fmt::format("version {} (protocol {}); this run is of version {} (protocol {})",
                       brief(printable(hello.version), 40), hello.protocol, plan_.version, kProtocolVersion);
  }
  if (hello.run != plan_.run)
    return fmt::format("it is of the run {}, this is {}", brief(printable(hello.run), 80), plan_.run);
  if (hello.node != name || name.empty()) return "its messages are in another node's name";
  if (hello.slots < 1) return "it has no room for a rank";
  const auto other = nodes_.find(name);
  if (other != nodes_.end() && other->second.connected && other->second.hello.host != hello.host) {
    return fmt::format("{} is connected already, from {}", name, other->second.hello.host);
  }
  for (const auto& [known, record] : ledger_.nodes) {
    // A rebooted machine is another attempt, and so is a pod that runs elsewhere under its old name: both are
    // checked first.
    const auto blocked = [&, &record = record] {
      return record.state == "evicted" && record.until_s > now_s_ && record.boot_id == hello.boot_id;
    };
    if (known == name && blocked()) return fmt::format("it was evicted: {}", record.reason);
    // Under another name, except where several nodes share a machine.
    if (known == name || record.host != hello.host || !blocked()) continue;
    const bool shared = std::ranges::any_of(ledger_.nodes, [&](const auto& node) {
      return node.second.host == hello.host && node.second.state != "evicted";
    });
    if (!shared) return fmt::format("its machine was evicted as {}: {}", known, record.reason);
  }
  return "";
}

void Driving::hear(const std::string& name, const NodeHello& hello) {
  if (const std::string why = refusal(name, hello); !why.empty()) {
    commands_.push_back(Refuse{name, why});
    return say(fmt::format("{} was refused: {}", brief(printable(name), 60), why));
  }
  Node& node = nodes_[name];
  const bool same_daemon = node.hello.pid == hello.pid && node.hello.boot_id == hello.boot_id;
  if (!same_daemon) {
    node.checked = false;
    node.results.reset();
    node.came_s = now_s_;
  }
  if (node.check != 0) node.check = 0;  // its answer is lost with the connection: it counts as not given
  node.hello = hello;
  node.connected = true;
  node.heard_s = now_s_;
  node.running = running_of(hello.running);
  newest_seen_ = std::max(newest_seen_, hello.generation);
  to(name, Welcome{.run = plan_.run,
                   .generation = ledger_.generation,
                   .beat_every_s = policy_.beat_every_s,
                   .lease_s = policy_.lease_s});
  const auto known = ledger_.nodes.find(name);
  if (known != ledger_.nodes.end() && known->second.state == "evicted") node.returned = true;
  if (known == ledger_.nodes.end() || (known->second.state != "active" && known->second.state != "spare"))
    set_node(name, "spare", "");
  const bool old = std::ranges::any_of(
      hello.running, [&](const RankBeat& beat) { return beat.generation != ledger_.generation; });
  if (old || (!hello.running.empty() && !placed(name))) {
    if (ledger_.generation == 0) tell_of_unknown_ranks(name, hello.running);
    to(name, StopRanks{.generation = std::max(hello.generation, ledger_.generation),
                       .reason = "another generation runs"});
  }
  if (!placed(name)) return;
  if (taken_up_) say_what_was_found(hello);
  // It may not have got the message.
  if (stopping_ != Stopping::kNo && !hello.running.empty()) to(name, last_stop_);
  learn_of_ranks(name, hello.running, hello.ended);
  missing_ranks(name, hello, same_daemon);
}

// This driver has no journal, or a lost one, and ends ranks that trained: their work since the last
// checkpoint is done again, which nothing else would explain. One incident stands for all nodes.
void Driving::tell_of_unknown_ranks(const std::string& name, const std::vector<RankBeat>& running) {
  std::vector<int64_t> ranks;
  int64_t step = -1, generation = 0;
  for (const RankBeat& beat : running) {
    ranks.push_back(beat.rank);
    step = std::max(step, beat.step);
    generation = std::max(generation, beat.generation);
  }
  Fault seen{.source = Fault::Source::kDriver, .node = name, .step = step};
  seen.text = fmt::format("the journal does not know generation {}: its ranks {} on {} are ended at step {}",
                          generation, fmt::join(ranks, ", "), name, step);
  if (!open_incidents_.empty()) return say(seen.text);
  fault_s_ = now_s_;
  open_incidents_.push_back(open(seen, classify(seen, ledger_, policy_, now_s_), false));
}

void Driving::say_what_was_found(const NodeHello& hello) {
  std::vector<std::string> ranks;
  int64_t step = -1;
  for (const RankBeat& beat : hello.running) {
    if (beat.generation != ledger_.generation) continue;
    ranks.push_back(fmt::format("{} (process {})", beat.rank, beat.pid));
    step = std::max(step, beat.step);
  }
  if (ranks.empty()) return;
  say(fmt::format("found the ranks of {}, which went on without a driver: {}, at step {}", hello.node,
                  fmt::join(ranks, ", "), step));
}

void Driving::hear(const std::string& name, const NodeBeat& beat) {
  nodes_[name].hello.free_port = beat.free_port;
  nodes_[name].machine = beat.machine;
  nodes_[name].running = running_of(beat.running);
  newest_seen_ = std::max(newest_seen_, beat.generation);
  if (beat.generation == ledger_.generation) learn_of_ranks(name, beat.running, beat.ended);
}

void Driving::hear(const std::string& name, const RankExited& exited) {
  nodes_[name].running.erase({exited.generation, exited.rank});
  if (exited.generation == ledger_.generation) take_end(name, exited);
}

void Driving::hear(const std::string& name, const HealthReport& report) { health(name, report); }

void Driving::hear(const std::string& name, const CheckResults& results) {
  Node& node = nodes_[name];
  if (node.check != 0 && results.id == node.check) node.results = results;
}

void Driving::hear(const std::string& name, const Evidence& evidence) {
  if (evidence.generation == ledger_.generation && evidence.last) nodes_[name].evidence_due = false;
}

void Driving::learn_of_ranks(const std::string& name, const std::vector<RankBeat>& running,
                             const std::vector<RankExited>& ended) {
  for (const RankBeat& beat : running) take_beat(name, beat);
  for (const RankExited& exited : ended) take_end(name, exited);
}

void Driving::take_beat(const std::string& name, const RankBeat& beat) {
  const auto found = ranks_.find(beat.rank);
  if (found == ranks_.end() || found->second.node != name || beat.generation != ledger_.generation) return;
  Rank& rank = found->second;
  if (rank.state == Rank::State::kEnded || rank.state == Rank::State::kLost) return;
  rank.state = Rank::State::kRunning;
  if (rank.resumed_step < 0) rank.resumed_step = beat.resumed_step >= 0 ? beat.resumed_step : beat.step;
  std::tuple progress{beat.step,
                      beat.micro_step,
                      beat.collective.group,
                      beat.collective.sequence,
                      beat.task_phase.name,
                      beat.task_phase.done};
  if (rank.beat && progress != rank.progress) {
    if (rank.stood_in_task) {
      time_outs_.saw_task(rank.standing_in, rank.standing_s);
    } else if (rank.training() && least_step() > ledger_.resumed_step) {
      time_outs_.saw(rank.standing_in, rank.standing_s);
    }
    rank.standing_s = 0;
  }
  if (beat.progress_age_s >= rank.standing_s) {
    rank.standing_s = beat.progress_age_s;
    rank.stood_in_task = beat.in_task();
    rank.standing_in = rank.stood_in_task ? beat.task_phase.name : beat.phase;
  }
  std::map<std::string, double> background;
  for (const BackgroundBeat& work : beat.background) {
    double& oldest = background[work.name];
    oldest = std::max(oldest, work.age_s);
  }
  // The work has ended, and another of its kind may have begun.
  for (const auto& [work, age_s] : rank.background) {
    if (const auto now = background.find(work); now == background.end() || now->second < age_s)
      time_outs_.saw_work(work, age_s);
  }
  rank.background = std::move(background);
  rank.progress = std::move(progress);
  rank.beat = beat;
  rank.beat_s = now_s_;
  last_step_ = std::max(last_step_, beat.step);
}

void Driving::take_end(const std::string& name, RankExited exited) {
  const auto found = ranks_.find(exited.rank);
  if (found == ranks_.end() || found->second.node != name || exited.generation != ledger_.generation) return;
  Rank& rank = found->second;
  if (rank.state == Rank::State::kEnded) return;
  rank.state = Rank::State::kEnded;
  rank.exited = exited;
  last_step_ = std::max(last_step_, exited.step);
  if (state_ != State::kLoad && state_ != State::kTrain && state_ != State::kDrain &&
      state_ != State::kSuspect && state_ != State::kRepair)
    return;
  // A rank that was ended for another's failure may have failed before it: that is evidence.
  const bool failed_before = exited.stopped && state_ == State::kSuspect && exited.error.code != 0;
  if (failed_before) exited.status = exited.error.code;
  const auto code = static_cast<ExitCode>(exited.status);
  const bool well =
      code == ExitCode::kDone || code == ExitCode::kPreemptedSaved || code == ExitCode::kPreemptedNotSaved;
  if (well || (exited.stopped && stopping_ != Stopping::kNo && !failed_before)) return;
  Fault seen{.source = Fault::Source::kExit,
             .rank = exited.rank,
             .node = name,
             .step = exited.step >= 0 ? exited.step
                     : rank.beat      ? rank.beat->step
                                      : -1};
  seen.status = exited.status;
  seen.out_of_memory = exited.out_of_memory;
  seen.trace = trace_of(exited);
  seen.age_s = exited.age_s;
  seen.ranks = {exited.rank};
  seen.own = exited.error.code != 0 && !exited.error.consequence;
  seen.failed_s = now_s_ - std::max(0.0, exited.error.age_s);
  seen.text = exited.status > 128
                  ? fmt::format("rank {} was ended by signal {}", exited.rank, exited.status - 128)
                  : fmt::format("rank {} ended with exit code {} ({})", exited.rank, exited.status,
                                longhaul::name_of(code));
  if (exited.out_of_memory) seen.text += ", out of memory";
  constexpr int64_t kKilled = 128 + 9;  // a killed rank reports nothing itself: the end of its log is older
  const std::string words = !exited.error.text.empty() ? exited.error.text
                            : exited.status == kKilled ? ""
                                                       : last_line_of(exited);
  if (!words.empty()) seen.text += ": " + brief(in_one_line(words), 400);
  fault(std::move(seen));
}

// The daemon lists its ranks: ranks that should be there and are not have ended, for unknown reasons.
void Driving::missing_ranks(const std::string& name, const NodeHello& hello, bool same_daemon) {
  std::vector<int64_t> missing;
  for (auto& [number, rank] : ranks_) {
    if (rank.node != name || rank.state == Rank::State::kEnded || rank.state == Rank::State::kLost) continue;
    const auto speaks_of = [&, wanted = number](const auto& known) {
      return known.rank == wanted && known.generation == ledger_.generation;
    };
    if (std::ranges::any_of(hello.running, speaks_of)) continue;
    missing.push_back(number);
    rank.state = Rank::State::kLost;
  }
  if (missing.empty() || (!ranks_run() && state_ != State::kDrain)) return;
  Fault seen{.source = same_daemon ? Fault::Source::kDriver : Fault::Source::kNodeDied,
             .node = name,
             .step = last_step_};
  seen.text = fmt::format("{} came back without rank {}", name, fmt::join(missing, ", "));
  fault(std::move(seen));
}

void Driving::silent_nodes() {
  for (auto& [name, node] : nodes_) {
    const auto known = ledger_.nodes.find(name);
    const bool counts =
        known != ledger_.nodes.end() && (known->second.state == "active" || known->second.state == "spare");
    if (!counts || now_s_ - node.heard_s <= policy_.node_silent_s) continue;
    const std::string text = fmt::format("nothing was heard of {} for {:.0f} s", name, now_s_ - node.heard_s);
    const bool had_ranks =
        placed(name) && (ranks_run() || state_ == State::kDrain || state_ == State::kSuspect);
    const double age_s = now_s_ - node.heard_s;
    lose(name, text);
    if (had_ranks)
      fault({.source = Fault::Source::kNodeSilent,
             .node = name,
             .step = last_step_,
             .reachable = false,
             .text = text,
             .age_s = age_s});
  }
}

void Driving::lose(const std::string& name, const std::string& reason) {
  for (auto& [number, rank] : ranks_) {
    if (rank.node == name && rank.state != Rank::State::kEnded) rank.state = Rank::State::kLost;
  }
  Node& node = nodes_[name];
  // A connection that stays open would never bring another hello.
  if (std::exchange(node.connected, false)) commands_.push_back(CloseConnection{name});
  node.checked = false;
  const auto known = ledger_.nodes.find(name);
  if (known != ledger_.nodes.end() && known->second.state != "evicted" && known->second.state != "lost")
    set_node(name, "lost", reason);
}

void Driving::evict(const std::string& name, const std::string& why) {
  set_node(name, "evicted", why);
  const NodeChanged& record = ledger_.nodes.at(name);
  const std::string& reason = record.reason;
  if (nodes_[name].connected)
    to(name, Release{.reason = reason, .evicted = true, .committed_step = kEveryStep});
  commands_.push_back(ReleaseNode{name, record.host, reason});
  write_blocked();
  say(fmt::format("{} is not used any more: {}", name, reason));
  nodes_[name].connected = false;
  for (auto& [number, rank] : ranks_) {
    if (rank.node == name && rank.state != Rank::State::kEnded) rank.state = Rank::State::kLost;
  }
}

void Driving::set_node(const std::string& name, const std::string& state, const std::string& reason,
                       bool leaving) {
  // A line for people; all observations, including stacks, are in the incident.
  NodeChanged change{
      .node = name, .state = state, .reason = reason.substr(0, reason.find('\n')), .leaving = leaving};
  const auto known = ledger_.nodes.find(name);
  if (known != ledger_.nodes.end()) {
    change.host = known->second.host;
    change.boot_id = known->second.boot_id;
    change.slots = known->second.slots;
  }
  if (const auto node = nodes_.find(name); node != nodes_.end() && !node->second.hello.node.empty()) {
    change.host = node->second.hello.host;
    change.boot_id = node->second.hello.boot_id;
    change.slots = node->second.hello.slots;
  }
  if (state == "evicted") change.until_s = now_s_ + policy_.block_s;
  if (known == ledger_.nodes.end() || known->second != change) record(std::move(change));
}

void Driving::write_blocked() {
  WriteBlocked all;
  for (const auto& [name, record] : ledger_.nodes) {
    if (record.state != "evicted" || record.until_s <= now_s_) continue;
    all.blocked.push_back({.host = record.host,
                           .boot_id = record.boot_id,
                           .node = name,
                           .reason = record.reason,
                           .generation = ledger_.generation,
                           .until_s = record.until_s});
  }
  commands_.push_back(std::move(all));
}

bool Driving::placed(const std::string& name) const {
  return !fresh_ &&
         std::ranges::any_of(ledger_.placement, [&](const NodeRanks& node) { return node.node == name; });
}

bool Driving::usable(const std::string& name) const {
  const auto node = nodes_.find(name);
  const auto record = ledger_.nodes.find(name);
  return node != nodes_.end() && node->second.connected && record != ledger_.nodes.end() &&
         (record->second.state == "active" || record->second.state == "spare");
}

// The nodes that have ranks first, then those that are no spares, each sorted by name; then hosts that failed
// repeatedly, and nodes that are to leave last.
std::vector<std::string> Driving::usable_nodes(bool spares) const {
  std::vector<std::string> names;
  for (const auto& [name, node] : nodes_) {
    if (usable(name) && (spares || !node.hello.spare || placed(name))) names.push_back(name);
  }
  const auto rank_of = [&](const std::string& name) {
    const auto& last = plan_.used_last;
    const auto lemon = std::ranges::find(last, ledger_.nodes.at(name).host);
    const auto behind = static_cast<int64_t>(last.size());
    if (ledger_.nodes.at(name).leaving) return 4 + behind;
    if (placed(name)) return int64_t{0};
    if (lemon != last.end()) return 3 + static_cast<int64_t>(lemon - last.begin());
    return int64_t{nodes_.at(name).hello.spare ? 2 : 1};
  };
  std::ranges::sort(names, [&](const std::string& a, const std::string& b) {
    const int64_t of_a = rank_of(a), of_b = rank_of(b);
    return of_a != of_b ? of_a < of_b : natural_less(a, b);
  });
  return names;
}

int64_t Driving::slots_of(const std::vector<std::string>& names) const {
  int64_t slots = 0;
  for (const std::string& name : names) slots += nodes_.at(name).hello.slots;
  return slots;
}

const Width* Driving::widest(int64_t slots) const {
  const auto found =
      std::ranges::find_if(plan_.widths, [&](const Width& width) { return width.ranks <= slots; });
  return found == plan_.widths.end() ? nullptr : &*found;
}

std::vector<std::string> Driving::without(const std::vector<std::string>& names,
                                          const std::set<std::string>& gone) const {
  std::vector<std::string> left;
  std::ranges::copy_if(names, std::back_inserter(left),
                       [&](const std::string& name) { return !gone.contains(name); });
  return left;
}

}  // namespace longhaul::control
