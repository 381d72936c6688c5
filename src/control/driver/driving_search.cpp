#include <fmt/format.h>

#include "control/driver/driving.h"

namespace longhaul::control {

// The fault that is searched for has come again while some samples were skipped.
void Driving::probe_died(const Fault& root) {
  say(fmt::format("samples {} to {} passed over: it died all the same", ledger_.search.skipped_begin,
                  ledger_.search.skipped_end - 1));
  not_before_s_ = now_s_;
  if (ledger_.search.deadly_step < root.step - plan_.prefetch - 1) {  // later: it is another fault
    SearchChanged over = ledger_.search;
    over.active = false;
    record(over);
    Verdict verdict{.fault = FaultClass::kUserCode, .action = Action::kRestart, .why = ""};
    if (!pay(root, verdict)) return;
    open_incidents_.push_back(open(root, verdict, true));
    return go(State::kRepair, root.text);
  }
  search_on(true);
}

// Called after a probe that died as before, or that got past the place of the crash.
void Driving::search_on(bool died) {
  const SearchChanged& tried = ledger_.search;
  const int64_t first = begin_search(tried.deadly_step, tried.trace, plan_, ledger_.skipped).begin;
  const SearchStep step = after_probe(tried, died, first, policy_.search_samples);
  const bool training = state_ == State::kTrain;
  const auto continue_with = [&](const std::string& text) {
    if (training) return restart_planned(text, false);
    say(text);
    go(State::kRepair, text);
  };
  if (!step.found) record(step.next);
  if (step.next.active) {
    const bool nothing = step.next.skipped_begin == step.next.skipped_end;
    return continue_with(fmt::format(
        "the deadly samples are among {} to {}; passing over {}", step.next.begin, step.next.end - 1,
        nothing ? "nothing, since no probe has died yet"
                : fmt::format("{} to {}", step.next.skipped_begin, step.next.skipped_end - 1)));
  }
  if (!step.found && !step.next.failed)
    return continue_with("no sample kills: the faults were others', and nothing is passed over");
  if (!step.found) {
    return finish(State::kFailed, ExitCode::kDoNotRestart,
                  fmt::format("ranks die after step {} whatever they read: {}", step.next.deadly_step,
                              step.next.trace));
  }
  const std::string text = fmt::format(
      "samples {} to {} kill every rank that reads them (after step {}): they are passed over from now on",
      // ends the search with one entry
      step.found->begin, step.found->end - 1, step.next.deadly_step);
  record(SamplesSkipped{.begin = step.found->begin, .end = step.found->end, .reason = text});
  for (const int64_t id : open_incidents_) {
    const IncidentRecord* incident = ledger_.open_incident(id);
    if (incident == nullptr || incident->fault() != FaultClass::kDeadlyBatch) continue;
    IncidentDiagnosed diagnosed =
        incident->diagnosed.value_or(IncidentDiagnosed{.id = id, .fault = incident->opened.fault});
    diagnosed.evidence = text;
    diagnosed.action = fmt::format("skip samples {} to {}", step.found->begin, step.found->end - 1);
    diagnosed.diagnosed_milliseconds = (now_s_ - incident->noticed_s()) * 1e3;
    record(diagnosed);
  }
  continue_with(text);
}

}  // namespace longhaul::control
