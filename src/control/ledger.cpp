#include "control/ledger.h"

#include <algorithm>

namespace longhaul::control {
namespace {

// The faults that a machine causes: each removes a machine, so they end by themselves and say nothing about
// the program.
bool blames_a_machine(FaultClass fault) {
  return fault == FaultClass::kDevice || fault == FaultClass::kDeviceDegraded ||
         fault == FaultClass::kNetwork || fault == FaultClass::kMachine || fault == FaultClass::kNodeDaemon ||
         fault == FaultClass::kOperator || fault == FaultClass::kFailedCheck ||
         fault == FaultClass::kDriver || fault == FaultClass::kFailSlow;
}

class Applying {
 public:
  Applying(Ledger& ledger, const Policy& policy, double at_s) : l_(ledger), policy_(policy), at_s_(at_s) {}

  void operator()(const DriverBegan&) { ++l_.drivers; }
  void operator()(const StateChanged& change) {
    l_.state = change.state;
    l_.state_reason = change.reason;
    l_.state_since_s = at_s_;
  }
  void operator()(const NodeChanged& change) { l_.nodes[change.node] = change; }
  void operator()(const GenerationBegan& began) {
    l_.generation = began.generation;
    l_.world = began.world;
    l_.placement = began.placement;
    l_.planned = began.planned;
    l_.generation_since_s = at_s_;
    l_.resumed_step = -1;
    l_.ended.reset();
  }
  void operator()(const GenerationResumed& resumed) {
    l_.resumed_step = resumed.step;
    l_.resumed_s = at_s_;
    l_.committed_step = std::max(l_.committed_step, resumed.step);
  }
  void operator()(const StepCommitted& committed) {
    l_.committed_step = std::max(l_.committed_step, committed.step);
  }

  void operator()(const IncidentOpened& opened) {
    l_.incidents.push_back({.opened = opened, .at_s = at_s_, .diagnosed = {}, .closed = {}});
    if (l_.incidents.size() > Ledger::kMostIncidents) l_.incidents.erase(l_.incidents.begin());
    ++l_.incident_count;
    ++l_.faults_by_class[opened.fault];
    if (!opened.restarts) return;
    ++l_.restarts;
    l_.budget_spent = policy_.restarts - l_.budget_left(at_s_, policy_) + 1;
    l_.budget_at_s = at_s_;
    const auto fault = fault_class_named(opened.fault);
    if (fault && blames_a_machine(*fault)) return;
    l_.cycles = l_.committed_step > l_.committed_at_last_fault ? 1 : l_.cycles + 1;
    l_.committed_at_last_fault = l_.committed_step;
  }
  void operator()(const IncidentDiagnosed& diagnosed) {
    if (IncidentRecord* incident = l_.open_incident(diagnosed.id)) incident->diagnosed = diagnosed;
  }
  void operator()(const IncidentClosed& closed) {
    if (IncidentRecord* incident = l_.open_incident(closed.id)) incident->closed = closed;
  }

  void operator()(const SearchChanged& change) {
    l_.search = change;
    l_.search_since = l_.generation;
  }
  void operator()(const SamplesSkipped& skipped) {
    l_.search.active = false;
    l_.search_since = l_.generation;
    l_.skipped.push_back({skipped.begin, skipped.end});
    std::ranges::sort(l_.skipped, {}, &data::SampleRange::begin);
    l_.skip_reasons.push_back(skipped.reason);
    l_.cycles = 0;  // what comes now is another fault
  }
  void operator()(const GenerationEnded& ended) {
    l_.productive_s = ended.productive_s;
    l_.ended_step = ended.step;
    for (const auto& [phase, seconds] : ended.longest_s) {
      const auto found = l_.longest_s.find(phase);
      l_.longest_s[phase] = found == l_.longest_s.end() ? seconds
                                                        : policy_.progress_average * found->second +
                                                              (1 - policy_.progress_average) * seconds;
    }
  }
  void operator()(const RunEnded& ended) { l_.ended = ended; }

 private:
  Ledger& l_;
  const Policy& policy_;
  double at_s_;
};

}  // namespace

FaultClass IncidentRecord::fault() const {
  return fault_class_named(diagnosed ? diagnosed->fault : opened.fault).value_or(FaultClass::kUnclear);
}

observe::IncidentReport IncidentRecord::report() const {
  observe::IncidentReport report{
      .id = opened.id, .fault = opened.fault, .rank = rank(), .node = node(), .evidence = {opened.evidence}};
  report.suspects = opened.suspects;
  report.action = opened.action;
  report.ended_generation = opened.generation;
  if (opened.step >= 0) report.step = opened.step;
  report.detected_milliseconds = opened.detected_milliseconds;
  if (opened.overdue_milliseconds >= 0) report.overdue_milliseconds = opened.overdue_milliseconds;
  if (diagnosed) {
    report.fault = diagnosed->fault;
    report.action = diagnosed->action;
    report.suspects = diagnosed->suspects;
    if (!diagnosed->evidence.empty()) report.evidence.push_back(diagnosed->evidence);
    report.diagnosed_milliseconds = diagnosed->diagnosed_milliseconds;
  }
  if (closed) {
    report.lost_steps = closed->lost_steps;
    report.recovered = closed->recovered;
    if (closed->recovered) report.recovered_milliseconds = closed->recovered_milliseconds;
  }
  return report;
}

void Ledger::apply(const JournalEntry& entry, const Policy& policy) {
  next_sequence = entry.sequence + 1;
  if (began_s == 0) began_s = entry.at_s;
  last_s = entry.at_s;
  std::visit(Applying(*this, policy, entry.at_s), entry.body);
}

IncidentRecord* Ledger::open_incident(int64_t id) {
  const auto found = std::ranges::find_if(
      incidents, [&](const IncidentRecord& incident) { return incident.opened.id == id; });
  return found == incidents.end() ? nullptr : &*found;
}

double Ledger::budget_left(double now_s, const Policy& policy) const {
  const auto whole = static_cast<double>(policy.restarts);
  const double refilled = whole * std::max(0.0, now_s - budget_at_s) / policy.restarts_window_s;
  return whole - std::max(0.0, budget_spent - refilled);
}

}  // namespace longhaul::control
