#include <fmt/format.h>

#include <algorithm>

#include "control/driver/driving.h"

namespace longhaul::control {
namespace {

constexpr std::string_view kWaiting = "communication";
constexpr std::string_view kSaving = "checkpoint";

bool ended_well(int64_t status) {
  const auto code = static_cast<ExitCode>(status);
  return code == ExitCode::kDone || code == ExitCode::kPreemptedSaved || code == ExitCode::kPreemptedNotSaved;
}

}  // namespace

void Driving::watch() {
  watch_end();
  if (ranks_run()) watch_steps();
  if (ranks_run() && watch_progress()) return;
  if (state_ == State::kTrain && first_step_done_) watch_plans();
}

int64_t Driving::least_step() const {
  int64_t least = ranks_.empty() ? -1 : INT64_MAX;
  for (const auto& [number, rank] : ranks_) least = std::min(least, rank.beat ? rank.beat->step : -1);
  return least;
}

bool Driving::all_ended() const {
  return std::ranges::all_of(ranks_, [](const auto& rank) {
    return rank.second.state == Rank::State::kEnded || rank.second.state == Rank::State::kLost;
  });
}

// Reports that ranks have loaded, that the first step is done, and how far they are.
void Driving::watch_steps() {
  if (state_ == State::kLoad &&
      std::ranges::all_of(ranks_, [](const auto& rank) { return rank.second.training(); })) {
    int64_t step = INT64_MAX;
    for (const auto& [number, rank] : ranks_) step = std::min(step, rank.resumed_step);
    record(GenerationResumed{.generation = ledger_.generation, .step = step});
    time_.resumed(step, now_s_);
    go(State::kTrain, fmt::format("going on from step {}", step));
  }
  if (state_ != State::kTrain) return;
  const int64_t step = least_step();
  time_.done(step, now_s_);
  if (!first_step_done_ && step > ledger_.resumed_step) {
    first_step_done_ = true;
    recovered();
  }
  const SearchChanged& search = ledger_.search;
  if (search.active && step >= survived_at(search, plan_)) search_on(false);
}

void Driving::recovered() {
  const int64_t lost = std::max<int64_t>(0, ledger_.ended_step - ledger_.resumed_step);
  if (ledger_.search.active) return;  // this was a probe, so the incident continues
  for (const int64_t id : open_incidents_) {
    const IncidentRecord* incident = ledger_.open_incident(id);
    if (incident == nullptr) continue;
    record(IncidentClosed{.id = id,
                          .lost_steps = lost,
                          .recovered = true,
                          .recovered_milliseconds = (now_s_ - incident->noticed_s()) * 1e3});
    emit(incident->report());
  }
  if (!open_incidents_.empty()) {
    say(fmt::format(
        "generation {} trains on from step {}, {} step{} done again, {:.1f} s after the fault was noticed",
        ledger_.generation, ledger_.resumed_step, lost, lost == 1 ? "" : "s", now_s_ - fault_s_));
  }
  open_incidents_.clear();
}

double Driving::limit_s(const Rank& rank) const {
  if (rank.beat->in_task())
    return time_outs_.task_limit_s(rank.beat->task_phase.name, rank.beat->task_phase.allowed_s);
  const bool over = rank.beat->phase == "idle" && plan_.steps > 0 && rank.beat->step >= plan_.steps;
  return time_outs_.limit_s(over ? ProgressTimeOuts::kBehindLastStep : rank.beat->phase);
}

// A first step may begin with a long phase of the task. While a rank stands in one, within its limit, the
// time of the first step does not run.
void Driving::excuse_task_phases() {
  const double before_s = std::exchange(excused_until_s_, now_s_);
  for (const auto& [number, rank] : ranks_) {
    if (rank.state != Rank::State::kRunning || !rank.beat || !rank.beat->in_task()) continue;
    const double since_s = now_s_ - rank.beat_s;
    if (rank.beat->progress_age_s + since_s > limit_s(rank)) continue;
    // A driver that was started later than the ranks finds a phase that has lasted for a while.
    task_s_ += before_s < 0 ? rank.beat->phase_age_s + since_s : now_s_ - before_s;
    return;
  }
}

// A rank that stands still usually waits for others: it hangs only if every rank for which it may wait has
// exceeded the time limit of its own activity. A process whose heartbeat thread gives no sign is stopped,
// whatever it was doing.
bool Driving::watch_progress() {
  if (!first_step_done_) excuse_task_phases();
  const double first_s = now_s_ - ledger_.generation_since_s - held_up_s_ - task_s_;
  if (!first_step_done_ && first_s > policy_.first_step_s) {
    suspect_hang(fmt::format("no step was done {:.0f} s after the start", first_s),
                 first_s - policy_.first_step_s);
    return true;
  }
  bool beyond = false, excused = false;
  // Of the rank that was the last to exceed its limit: until then the others were waiting for it.
  double overdue_s = 0;
  std::string first;
  for (const auto& [number, rank] : ranks_) {
    if (rank.state != Rank::State::kRunning || !rank.beat) continue;
    const double since_s = now_s_ - rank.beat_s;
    if (since_s > 3 * policy_.beat_every_s) continue;  // the daemon is silent, not the rank
    if (const double silent_s = rank.beat->beat_age_s + since_s; silent_s > policy_.rank_silent_s) {
      suspect_hang(fmt::format("the process of rank {} gave no sign for {:.0f} s", number, silent_s),
                   silent_s - policy_.rank_silent_s);
      return true;
    }
    if (watch_background(number, rank, since_s)) return true;
    if (!first_step_done_ && !rank.beat->in_task()) continue;
    const double age_s = rank.beat->progress_age_s + since_s, limit_s = this->limit_s(rank);
    // A save may have to wait for the previous save, which has a deadline of its own: until then this rank
    // does not count as hanging.
    const bool waits_for_work = rank.beat->phase == kSaving && !rank.beat->background.empty();
    if (age_s > limit_s && !waits_for_work) {
      if (!beyond)
        first = fmt::format("rank {} stands in {} for {:.0f} s, more than {:.0f} s", number,
                            observe::phase_text(rank.beat->phase, rank.beat->task_phase), age_s, limit_s);
      overdue_s = beyond ? std::min(overdue_s, age_s - limit_s) : age_s - limit_s;
      beyond = true;
    } else if (rank.beat->phase != kWaiting) {
      excused = true;
    }
  }
  if (!beyond || excused) return false;
  suspect_hang(first, overdue_s);
  return true;
}

// Work of a rank's background threads that does not end: steps go on until some rank has to wait for it.
bool Driving::watch_background(int64_t number, const Rank& rank, double since_s) {
  for (const BackgroundBeat& work : rank.beat->background) {
    const double age_s = work.age_s + since_s, limit_s = time_outs_.work_limit_s(work.name, work.allowed_s);
    if (age_s <= limit_s) continue;
    suspect_hang(fmt::format("'{}' of rank {} goes on for {:.0f} s, more than {:.0f} s", work.name, number,
                             age_s, limit_s),
                 age_s - limit_s, work.name);
    return true;
  }
  return false;
}

// Handles what can wait for a checkpoint, when nothing is lost by it: nodes that should leave, and nodes that
// have come.
void Driving::watch_plans() {
  const bool at_checkpoint = std::exchange(at_checkpoint_, false);
  for (const NodeRanks& node : ledger_.placement) {
    const NodeChanged& record = ledger_.nodes.at(node.node);
    if (!record.leaving || !at_checkpoint || !replaceable(node.node)) continue;
    evicting_.insert(node.node);
    return restart_planned(fmt::format("{} is replaced: {}", node.node, record.reason), true);
  }
  const Width* width = widest(slots_of(usable_nodes(true)));
  if (!policy_.grow || width == nullptr || width->ranks <= ledger_.world || ledger_.search.active) {
    wide_since_s_ = 0;
    return;
  }
  if (wide_since_s_ == 0) wide_since_s_ = now_s_;
  if (at_checkpoint || now_s_ - wide_since_s_ > policy_.grow_s) {
    restart_planned(fmt::format("there is room for {} ranks again", width->ranks), true);
  }
}

void Driving::watch_end() {
  const auto well = [](const auto& rank) {
    return rank.second.state == Rank::State::kEnded && rank.second.exited &&
           ended_well(rank.second.exited->status);
  };
  if (ranks_.empty() || std::ranges::none_of(ranks_, well)) return;
  if (ledger_.search.active) return search_on(false);  // a probe is not the run's end
  if (std::ranges::all_of(ranks_, well)) return go(State::kDrain, "all ranks have ended");
  go(State::kDrain, fmt::format("rank {} has ended", std::ranges::find_if(ranks_, well)->first));
}

// Called when ranks were asked to save and end, or when the first has ended by itself.
void Driving::drain() {
  if (!all_ended()) {
    const double patience_s = draining_ ? policy_.save_s + policy_.gone_s : policy_.end_s;
    if (in_state_s() <= patience_s) return;
    if (draining_)
      return finish(State::kDone, ExitCode::kPreemptedNotSaved,
                    "the ranks did not end in time; they were ended");
    return fault({.source = Fault::Source::kDeadline,
                  .step = last_step_,
                  .text = fmt::format("ranks go on {:.0f} s after others have ended", in_state_s())});
  }
  ExitCode code = ExitCode::kDone;
  for (const auto& [number, rank] : ranks_) {
    if (!rank.exited || !ended_well(rank.exited->status)) {
      code = ExitCode::kPreemptedNotSaved;
    } else if (rank.exited->status != 0 && code != ExitCode::kPreemptedNotSaved) {
      code = static_cast<ExitCode>(rank.exited->status);
    }
  }
  if (drain_failed_) code = ExitCode::kPreemptedNotSaved;
  if (code == ExitCode::kDone) return finish(State::kDone, code, "all steps are done");
  finish(State::kDone, code,
         fmt::format("{}: the ranks have {}", drain_reason_.empty() ? "asked to stop" : drain_reason_,
                     code == ExitCode::kPreemptedSaved ? "saved and ended" : "ended without saving"));
}

void Driving::restart_planned(const std::string& reason, bool save) {
  say(reason);
  planned_ = true;
  fault_s_ = now_s_;
  not_before_s_ = now_s_;
  note_committed();
  end_generation();
  stop_ranks(save ? policy_.save_s : policy_.stop_grace_s, save, reason);
  go(State::kRepair, reason);
}

void Driving::end_generation() {
  if (!generation_open_) return;
  generation_open_ = false;
  time_.stopped();
  record(GenerationEnded{.generation = ledger_.generation,
                         .step = last_step_,
                         .productive_s = time_.productive_s(),
                         .longest_s = time_outs_.seen()});
}

void Driving::stop_ranks(double grace_s, bool save, const std::string& reason, bool leave) {
  stopping_ = save ? Stopping::kSaving : Stopping::kNow;
  last_stop_ = {
      .generation = ledger_.generation, .grace_s = grace_s, .save = save, .reason = reason, .leave = leave};
  for (const NodeRanks& node : ledger_.placement) {
    if (nodes_[node.node].connected) to(node.node, last_stop_);
  }
}

}  // namespace longhaul::control
