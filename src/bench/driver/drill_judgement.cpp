#include "bench/driver/drill_judgement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "bench/driver/driver_drills.h"
#include "observe/events/event_comparison.h"
#include "observe/events/event_log.h"

namespace longhaul::bench {
namespace {

namespace fs = std::filesystem;

// A start that resumed from a step before the newest checkpoint that was committed by then; nothing: there is
// none.
std::string lost_checkpoint(const std::vector<observe::Event>& told) {
  int64_t committed = 0;
  for (const observe::Event& event : told) {
    if (const auto* saved = std::get_if<observe::CheckpointSaved>(&event.body))
      committed = std::max(committed, saved->step);
    const auto* resumed = std::get_if<observe::Resume>(&event.body);
    if (resumed != nullptr && resumed->step < committed)
      return fmt::format("resumed from step {}, {} was committed", resumed->step, committed);
  }
  return "";
}

}  // namespace

bool tells_of_a_full_disk(std::string_view alarm_kind) {
  return alarm_kind == "disk_full" || alarm_kind == "checkpoints_removed";
}

std::vector<double> straggler_alarms(const fs::path& run, int64_t rank) {
  std::vector<double> told;
  const fs::path events = run / "events" / "driver-0.jsonl";
  if (!fs::exists(events)) return told;
  observe::for_each_event(events, [&](const observe::Event& event) {
    const auto* alarm = std::get_if<observe::Alarm>(&event.body);
    if (alarm != nullptr && alarm->kind == "straggler" &&
        alarm->message.find(fmt::format("rank {} computes", rank)) != std::string::npos)
      told.push_back(event.common.wall_time);
  });
  return told;
}

std::vector<int64_t> missing_in_silence(const std::vector<int64_t>& missing,
                                        const std::vector<observe::Event>& told) {
  std::vector<int64_t> silent = missing;
  for (const observe::Event& event : told) {
    const auto* alarm = std::get_if<observe::Alarm>(&event.body);
    if (alarm == nullptr || alarm->kind != "events_lost" || !alarm->first_step || !alarm->last_step) continue;
    std::erase_if(silent,
                  [&](int64_t step) { return step >= *alarm->first_step && step <= *alarm->last_step; });
  }
  return silent;
}

RunJudgement judge(const std::optional<int>& status, const fs::path& run, const fs::path& undisturbed,
                   int64_t ranks) {
  RunJudgement judgement;
  judgement.ended = status == 0;
  if (!judgement.ended)
    judgement.problem = status ? fmt::format("launch ended with {}", *status) : "launch took too long";
  if (!fs::exists(run / "events.jsonl")) return judgement;
  for (int64_t rank = 0; rank < ranks; ++rank) judgement.straggler_alarms[rank] = straggler_alarms(run, rank);
  // An alarm must name the steps whose report was lost (the disk was full, or rank 0 ended before it). All
  // other steps are equal.
  const observe::Comparison comparison = observe::compare(undisturbed, run);
  const std::vector<observe::Event> told = observe::read_events(run / "events.jsonl");
  const std::vector<int64_t> silent = missing_in_silence(comparison.only_in_first, told);
  judgement.same_bits = comparison.equal() && silent.empty() && comparison.only_in_second.empty();
  if (!judgement.same_bits && judgement.problem.empty()) {
    judgement.problem = comparison.text();
    if (!silent.empty())
      judgement.problem += fmt::format("no alarm tells that steps are missing: {}", fmt::join(silent, ", "));
  }
  judgement.lost = lost_checkpoint(told);
  for (const observe::Event& event : told) {
    const auto* alarm = std::get_if<observe::Alarm>(&event.body);
    if (alarm != nullptr && tells_of_a_full_disk(alarm->kind))
      judgement.disk_alarms.push_back(event.common.wall_time);
  }
  const fs::path events = run / "events" / "driver-0.jsonl";
  if (!fs::exists(events)) return judgement;
  for (const observe::Event& event : observe::read_events(events)) {
    // A disk without room and a slow rank end no generation; another fault of the same one does.
    const auto* incident = std::get_if<observe::IncidentReport>(&event.body);
    if (incident != nullptr && incident->fault != "storage" && incident->fault != "fail_slow")
      judgement.incidents.emplace(incident->ended_generation, *incident);
  }
  return judgement;
}

DrillOutcome outcome_of(const Drill& drill, int64_t ranks, const std::optional<FaultMark>& mark,
                        bool explained, const RunJudgement& judgement) {
  DrillOutcome outcome{.drill = drill, .ranks = ranks, .happened = mark.has_value()};
  outcome.problem = judgement.problem.empty() ? judgement.lost : judgement.problem;
  if (!mark) {
    if (outcome.problem.empty()) outcome.problem = "it never came";
    return outcome;
  }
  outcome.recovered = judgement.ended, outcome.same_bits = judgement.same_bits,
  outcome.kept = judgement.lost.empty();
  if (drill.kind == "disk full") {
    outcome.named =
        std::ranges::any_of(judgement.disk_alarms, [&](double told) { return told >= mark->wall_time; });
    outcome.incident = outcome.named ? "disk_full" : "";
    return outcome;
  }
  if (drill.kind == "slow rank") {
    const auto alarms = judgement.straggler_alarms.find(drill.rank);
    outcome.named = alarms != judgement.straggler_alarms.end() &&
                    std::ranges::any_of(alarms->second, [&](double told) { return told >= mark->wall_time; });
    outcome.incident = outcome.named ? "straggler" : "";
    return outcome;
  }
  if (names_nobody(drill.kind)) {
    outcome.named = true;
    return outcome;
  }
  const auto found = judgement.incidents.find(mark->generation);
  if ((found == judgement.incidents.end() || explained) && drill.kind == "half-open connection") {
    outcome.named = true;  // its daemon noticed, and has connected again: the driver missed nothing
    return outcome;
  }
  if (found == judgement.incidents.end()) {
    outcome.problem += fmt::format("no incident of generation {}", mark->generation);
    return outcome;
  }
  const observe::IncidentReport& incident = found->second;
  outcome.incident = incident.fault;
  outcome.named = names_a_node(drill.kind) ? incident.node == mark->node : incident.rank == drill.rank;
  if (drill.kind == "memory limit") outcome.named = outcome.named && incident.fault == "host_out_of_memory";
  if (!outcome.named && outcome.problem.empty()) {
    outcome.problem = fmt::format("told as {} of rank {} and '{}' in generation {}", incident.fault,
                                  incident.rank, incident.node, mark->generation);
  }
  outcome.detected_milliseconds = incident.detected_milliseconds;
  outcome.overdue_milliseconds = incident.overdue_milliseconds;
  outcome.diagnosed_milliseconds = incident.diagnosed_milliseconds;
  outcome.recovered_milliseconds = incident.recovered_milliseconds;
  return outcome;
}

}  // namespace longhaul::bench
