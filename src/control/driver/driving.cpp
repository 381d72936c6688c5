#include "control/driver/driving.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text/text.h"
#include "control/rank_placement.h"

namespace longhaul::control {
namespace {

constexpr double kHeldUp_s = 2;  // twice what next_tick_s() allows

Ledger ledger_of(const std::vector<JournalEntry>& journal, const Policy& policy) {
  Ledger ledger;
  for (const JournalEntry& entry : journal) ledger.apply(entry, policy);
  return ledger;
}

const Width* width_named(const RunPlan& plan, int64_t ranks) {
  const auto found = std::ranges::find(plan.widths, ranks, &Width::ranks);
  return found == plan.widths.end() ? nullptr : &*found;
}

}  // namespace

std::string_view name_of(State state) {
  constexpr std::array<std::string_view, 11> kNames = {"INIT",     "RENDEZVOUS", "CHECK", "LOAD",
                                                       "TRAIN",    "DRAIN",      "DONE",  "SUSPECT",
                                                       "DIAGNOSE", "REPAIR",     "FAILED"};
  return kNames[static_cast<size_t>(state)];
}

Driving::Driving(RunPlan plan, Policy policy, const std::vector<JournalEntry>& journal)
    : plan_(std::move(plan)),
      policy_(policy),
      ledger_(ledger_of(journal, policy)),
      now_s_(ledger_.last_s),
      newest_seen_(plan_.begun),
      time_outs_(policy_, ledger_.longest_s),
      time_(ledger_.began_s, ledger_.productive_s) {
  policy_.read_ahead = plan_.prefetch;
  LONGHAUL_ASSERT(!plan_.widths.empty() && !plan_.batches.empty(), "a plan without widths or batches");
}

// Runs at the first input of a driver. A restarted driver continues from the end of its journal; the ranks
// may have gone on without it.
void Driving::take_up() {
  begun_ = true;
  if (ledger_.began_s == 0) time_ = EffectiveTime(now_s_, 0);
  const std::string before = ledger_.state;
  const bool ended = ledger_.ended.has_value();
  const bool forgotten = ledger_.drivers == 0;
  record(DriverBegan{.version = kJournalVersion, .run = plan_.run, .recipe = plan_.recipe});
  for (const data::SampleRange& range : forgotten ? plan_.skipped : std::vector<data::SampleRange>())
    record(SamplesSkipped{
        .begin = range.begin, .end = range.end, .reason = "skip.json says so, an earlier journal is lost"});
  fresh_ = ledger_.generation == 0 || ended;
  wrote_skip_ = ledger_.search_since > 0 || plan_.begun > 0;
  state_since_s_ = now_s_;
  if (fresh_) return go(State::kRendezvous, "waiting for nodes");
  for (const IncidentRecord& incident : ledger_.incidents) {
    if (!incident.closed) open_incidents_.push_back(incident.opened.id);
  }
  width_ = width_named(plan_, ledger_.world);
  for (const NodeRanks& node : ledger_.placement) {
    nodes_[node.node].heard_s = now_s_;
    for (const int64_t rank : node.ranks) ranks_[rank].node = node.node;
  }
  const bool ran =
      before == name_of(State::kLoad) || before == name_of(State::kTrain) || before == name_of(State::kDrain);
  fault_s_ = now_s_;
  if (ran && !ledger_.probe_is_over()) {
    generation_open_ = taken_up_ = true;
    if (ledger_.resumed_step >= 0) time_.resumed(ledger_.resumed_step, ledger_.resumed_s);
    return go(ledger_.resumed_step < 0 ? State::kLoad : State::kTrain, "the driver is back");
  }
  stopping_ = Stopping::kNow;
  last_stop_ = {.generation = ledger_.generation, .reason = "the driver is back"};
  go(State::kRepair, "the driver is back");
}

Commands Driving::on(const Input& input, double now_s) {
  now_s_ = std::max({now_s_, now_s, ledger_.last_s});
  commands_.clear();
  if (state_ == State::kDone || state_ == State::kFailed) return {};
  if (!begun_) take_up();
  if (told_s_ > 0 && now_s_ - told_s_ > kHeldUp_s) held_up(now_s_ - told_s_);
  told_s_ = now_s_;
  std::visit([this](const auto& what) { take(what); }, input);
  advance();
  return std::move(commands_);
}

// The driver's process was held up: a disk that did not answer, a machine without memory, SIGSTOP. Messages
// of that time are still to be read, so the time-outs continue from where it stopped.
void Driving::held_up(double for_s) {
  for (auto& [name, node] : nodes_) node.heard_s += for_s;
  for (double* since_s : {&state_since_s_, &gathering_until_s_, &last_call_s_}) *since_s += for_s;
  if (wide_since_s_ > 0) wide_since_s_ += for_s;
  held_up_s_ += for_s;
  say(fmt::format("the driver itself was held up for {:.0f} s", for_s));
}

void Driving::advance() {
  silent_nodes();
  for (int changes = 0; changes < 20; ++changes) {
    const State before = state_;
    switch (state_) {
      case State::kInit:
        break;
      case State::kRendezvous:
        rendezvous();
        break;
      case State::kCheck:
        check();
        break;
      case State::kLoad:
      case State::kTrain:
        watch();
        break;
      case State::kDrain:
        drain();
        break;
      case State::kSuspect:
        suspect();
        break;
      case State::kDiagnose:
        diagnose();
        break;
      case State::kRepair:
        repair();
        break;
      case State::kDone:
      case State::kFailed:
        return;
    }
    if (state_ == before) return;
  }
}

double Driving::next_tick_s(double now_s) const {
  double next = now_s + 1;
  const auto at = [&](double time_s) {
    if (time_s > now_s) next = std::min(next, time_s);
  };
  if (state_ == State::kSuspect) {
    at(last_call_s_);
    at(gathering_until_s_);
  }
  if (state_ == State::kRepair || state_ == State::kRendezvous) at(not_before_s_);
  return next;
}

void Driving::record(JournalBody body) {
  JournalEntry entry{.sequence = ledger_.next_sequence, .at_s = now_s_, .body = std::move(body)};
  ledger_.apply(entry, policy_);
  commands_.push_back(WriteJournal{std::move(entry)});
}

void Driving::go(State state, const std::string& reason) {
  state_ = state;
  state_since_s_ = now_s_;
  record(StateChanged{.state = std::string(name_of(state)), .reason = reason});
  emit(observe::DriverState{.state = std::string(name_of(state)),
                            .reason = reason,
                            .ranks_generation = ledger_.generation,
                            .ranks = ledger_.world});
}

void Driving::take(const FromNode& from) {
  const auto known = nodes_.find(from.node);
  if (!std::holds_alternative<NodeHello>(from.message)) {
    if (known == nodes_.end() || !known->second.connected) return;  // of a connection that counts no more
    known->second.heard_s = now_s_;
  }
  std::visit([&](const auto& message) { hear(from.node, message); }, from.message);
}

void Driving::take(const ConnectionLost& lost) {
  if (const auto node = nodes_.find(lost.node); node != nodes_.end()) node->second.connected = false;
}

void Driving::take(const NodeDied& died) {
  const auto found = nodes_.find(died.node);
  if (found == nodes_.end()) return;
  found->second.connected = false;
  commands_.push_back(CloseConnection{died.node});
  const bool had_ranks = placed(died.node);
  Fault seen{
      .source = Fault::Source::kNodeDied, .node = died.node, .reachable = died.reachable, .text = died.text};
  if (had_ranks && state_ != State::kRendezvous && state_ != State::kCheck) {
    for (auto& [number, rank] : ranks_) {
      if (rank.node == died.node && rank.state != Rank::State::kEnded) rank.state = Rank::State::kLost;
    }
    return fault(std::move(seen));
  }
  lose(died.node, died.text);
  const auto known = ledger_.nodes.find(died.node);
  // It was told to end.
  const bool evicted = known != ledger_.nodes.end() && known->second.state == "evicted";
  if (died.reachable && policy_.restart_nodes && !evicted) commands_.push_back(StartNode{died.node});
}

void Driving::take(const Evict& request) {
  const bool is_rank = !request.target.empty() &&
                       std::ranges::all_of(request.target, [](char c) { return c >= '0' && c <= '9'; });
  std::string name = request.target;
  if (is_rank) name = request.target.size() > 9 ? "" : node_of(ledger_.placement, std::stoll(request.target));
  const auto answer = [&](bool good, std::string text) {
    commands_.push_back(Reply{Answer{good, std::move(text)}});
  };
  const auto known = ledger_.nodes.find(name);
  if (known == ledger_.nodes.end())
    return answer(false, fmt::format("there is no {} {} in this run", is_rank ? "rank" : "node",
                                     brief(printable(request.target), 60)));
  if (known->second.state == "evicted")
    return answer(true, fmt::format("{} was evicted before: {}", name, known->second.reason));
  const std::string reason = request.reason.empty() ? "evicted by a person" : request.reason;
  if (!placed(name) || !ranks_run()) {
    if (placed(name) && state_ == State::kDrain) return answer(false, "the run is about to end");
    evict(name, reason);
    return answer(true, fmt::format("{} will not be used", name));
  }
  const std::vector<std::string> others = without(usable_nodes(true), {name});
  if (widest(slots_of(others)) == nullptr && policy_.replacement_s <= 0) {
    return answer(
        false, fmt::format(
                   "{} cannot be spared: the other nodes have {} slots, and no width of the run fits on them",
                   name, slots_of(others)));
  }
  Fault seen{.source = Fault::Source::kOperator,
             .rank = is_rank ? std::stoll(request.target) : -1,
             .node = name,
             .step = least_step(),
             .text = reason};
  Verdict verdict = classify(seen, ledger_, policy_, now_s_);
  open_incidents_.push_back(open(seen, verdict, false));
  fault_s_ = now_s_;
  evicting_.insert(name);
  answer(true, fmt::format("{} is evicted: the ranks save, and go on without it", name));
  restart_planned(fmt::format("{} is evicted: {}", name, reason), true);
}

void Driving::take(const Drain& request) {
  if (draining_) return commands_.push_back(Reply{Answer{true, "the run is ending already"}});
  draining_ = true;
  drain_reason_ = request.reason;
  commands_.push_back(Reply{Answer{true, "the ranks save and end"}});
  if (!ranks_run()) {
    if (state_ == State::kDrain) return;
    const ExitCode code = std::max(committed_, ledger_.committed_step) >= 0 ? ExitCode::kPreemptedSaved
                                                                            : ExitCode::kPreemptedNotSaved;
    return finish(State::kDone, code, fmt::format("stopped ({}) while no rank was training", request.reason));
  }
  stop_ranks(policy_.save_s, true, request.reason);
  go(State::kDrain, request.reason);
}

void Driving::take(const Abort& request) {
  finish(State::kFailed, ExitCode::kPreemptedNotSaved, fmt::format("aborted: {}", request.reason));
}

// Checkpoints may come each second: the journal hears of them when it matters.
void Driving::take(const Committed& committed) {
  if (committed.step <= committed_) return;
  committed_ = committed.step;
  at_checkpoint_ = true;
}

void Driving::note_committed() {
  if (committed_ > ledger_.committed_step) record(StepCommitted{.step = committed_});
}

void Driving::take(const HangFound& found) {
  if (state_ != State::kSuspect || !analysing_ || found.generation != ledger_.generation) return;
  if (found.stopped) stuck_work_.clear();
  hang_known(found.suspects, found.program, found.text);
}

void Driving::take(const Suspected& suspected) { health(suspected.node, suspected.report); }

void Driving::take(const JournalProblem& problem) {
  emit(observe::Alarm{.kind = problem.text.empty() ? "journal_written" : "journal_not_written",
                      .message = problem.text.empty() ? "what waited for room is on disk" : problem.text});
  say(problem.text.empty() ? "the journal can be written again"
                           : "the journal cannot be written, training goes on: " + problem.text);
}

// All nodes are told that the run is over.
void Driving::finish(State state, ExitCode code, const std::string& text, int64_t rank) {
  if (state_ == State::kDone || state_ == State::kFailed) return;
  note_committed();
  end_generation();
  for (const int64_t id : open_incidents_) {
    record(IncidentClosed{.id = id, .lost_steps = 0, .recovered = false, .recovered_milliseconds = 0});
    if (const IncidentRecord* incident = ledger_.open_incident(id)) emit(incident->report());
  }
  open_incidents_.clear();
  record(RunEnded{.code = static_cast<int64_t>(code), .text = text});
  go(state, text);
  for (const auto& [name, node] : nodes_) {
    if (node.connected)
      to(name, Release{.reason = text, .committed_step = code == ExitCode::kDone ? kEveryStep : committed_});
  }
  commands_.push_back(Finish{.code = code, .text = text, .rank = rank});
}

DriverCore::DriverCore(RunPlan plan, Policy policy, std::vector<JournalEntry> journal)
    : inside_(std::make_unique<Driving>(std::move(plan), policy, journal)) {}
DriverCore::~DriverCore() = default;
DriverCore::DriverCore(DriverCore&&) noexcept = default;
DriverCore& DriverCore::operator=(DriverCore&&) noexcept = default;
Commands DriverCore::on(const Input& input, double now_s) { return inside_->on(input, now_s); }
double DriverCore::next_tick_s(double now_s) const { return inside_->next_tick_s(now_s); }
State DriverCore::state() const { return inside_->state(); }
int64_t DriverCore::generation() const { return inside_->ledger().generation; }
const Ledger& DriverCore::ledger() const { return inside_->ledger(); }
nlohmann::ordered_json DriverCore::status(double now_s) const { return inside_->status(now_s); }

}  // namespace longhaul::control
