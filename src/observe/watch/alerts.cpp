#include "observe/watch/alerts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/clock.h"
#include "base/text/text.h"
#include "observe/format.h"

namespace longhaul::observe {
namespace {

constexpr double kNoProgress_s = 120, kNoBeat_s = 30, kLeastEffective = 0.9, kLeastScore = 0.75,
                 kLeastDisk = 0.15;
constexpr double kCheckpointIntervals = 3;

// In the order of severity. The driver reacts by itself long before; these are for people.
constexpr std::array kAlertRules = {
    AlertRule{"LonghaulRunFailed", "critical", "the run has ended with an error, or its driver has given up",
              0},
    AlertRule{"LonghaulIncident", "warning", "a fault was found and dealt with", 0},
    AlertRule{"LonghaulDriverSilent", "critical", "the driver of a run that goes on writes no status", 15},
    AlertRule{"LonghaulNoProgress", "critical",
              "a rank, or the whole run, has made no progress for two minutes", 0},
    AlertRule{"LonghaulRankSilent", "critical",
              "a rank that should be running has not been heard for half a minute", 0},
    AlertRule{"LonghaulCheckpointOld", "critical", "the last checkpoint is older than three intervals", 0},
    AlertRule{"LonghaulEffectiveTimeLow", "warning", "less than 90 % of the last hour were steps that count",
              300},
    AlertRule{"LonghaulStraggler", "warning",
              "a rank takes more than 4/3 of its peers' time for the same work", 300},
    AlertRule{"LonghaulNotFinite", "warning", "a loss or gradient was not finite", 0},
    AlertRule{"LonghaulDiskLow", "critical", "less than 15 % of the run folder's disk are free", 60},
};

std::optional<std::string> no_progress(const RunView& run) {
  if (run.status) {
    double worst = 0;
    int64_t rank = -1;
    for (const RankStatus& each : run.status->ranks) {
      const bool may_wait = each.phase == "start" || each.phase == "load" || each.phase == "checkpoint" ||
                            each.phase == "evaluation" ||
                            each.phase == "task";  // of which the driver knows the limit
      if (each.state == "running" && !may_wait && each.progress_age_s > worst)
        worst = each.progress_age_s, rank = each.rank;
    }
    if (worst > kNoProgress_s && run.status->state == "TRAIN")
      return fmt::format("rank {} has made no progress for {}", rank, duration_text(worst));
    return std::nullopt;
  }
  if (run.history.end || run.history.steps.empty()) return std::nullopt;
  const double silent = run.event_word.age(run.now);
  if (silent > std::max(kNoProgress_s, 5 * run.seconds_a_step()))
    return fmt::format("nothing was written for {}", duration_text(silent));
  return std::nullopt;
}

std::optional<std::string> condition(std::string_view name, const RunView& run) {
  const bool driver_runs =
      run.status && run.status->state != "DONE" && run.status->state != "FAILED" && !run.history.end;
  if (name == "LonghaulRunFailed") {
    if (run.status && run.status->state == "FAILED") return "the driver has given up";
    if (!run.status && run.history.end && run.history.end->reason == "error")
      return fmt::format("it ended with an error at step {}", run.history.end->step);
  } else if (name == "LonghaulDriverSilent") {
    if (driver_runs && run.status_age() > 15)
      return fmt::format("its last word is {} old", duration_text(run.status_age()));
  } else if (name == "LonghaulNoProgress") {
    return no_progress(run);
  } else if (name == "LonghaulRankSilent" && driver_runs) {
    for (const RankStatus& rank : run.status->ranks) {
      if (rank.state == "running" && rank.beat_age_s > kNoBeat_s)
        return fmt::format("rank {} on {} for {}", rank.rank, rank.node, duration_text(rank.beat_age_s));
    }
  } else if (name == "LonghaulCheckpointOld") {
    const double interval = run.checkpoint_interval_s(), age = run.checkpoint_word.age(run.now);
    if (!run.history.end && interval > 0 && age > std::max(60.0, kCheckpointIntervals * interval))
      return fmt::format("the last is {} old, they come every {}", duration_text(age),
                         duration_text(interval));
  } else if (name == "LonghaulEffectiveTimeLow") {
    const auto hour = run.effective_ratio_hour();
    if (driver_runs && hour && *hour < kLeastEffective) return percent(*hour) + " of the last hour";
  } else if (name == "LonghaulStraggler") {
    for (const auto& row : run.latencies.rows) {
      if (row.straggler && row.score < kLeastScore && !run.history.end)
        return fmt::format("rank {} {} works at {} of its peers' speed", row.rank, row.place.node,
                           percent(row.score));
    }
  } else if (name == "LonghaulNotFinite") {
    for (const Trouble& trouble : run.troubles) {
      if (trouble.kind == "not finite" && run.now - trouble.wall_time < 300) return trouble.text;
    }
  } else if (name == "LonghaulDiskLow") {
    if (run.disk_free_ratio < kLeastDisk) return fmt::format("{} are free", percent(run.disk_free_ratio));
  }
  return std::nullopt;
}

const AlertRule& rule_of(const std::string& name) {
  return *std::ranges::find(kAlertRules, std::string_view(name), &AlertRule::name);
}

std::string incident_summary(const Incident& incident) {
  std::string text = incident.fault;
  if (incident.rank >= 0) text += fmt::format(", rank {}", incident.rank);
  if (!incident.node.empty()) text += " on " + incident.node;
  if (!incident.action.empty()) text += ": " + incident.action;
  return text;
}

}  // namespace

std::span<const AlertRule> alert_rules() { return kAlertRules; }

std::vector<Alert> AlertBook::look_at(const RunView& run) {
  std::vector<Alert> news;
  for (const AlertRule& rule : kAlertRules) {
    const std::string name(rule.name);
    const auto holds = condition(rule.name, run);
    const auto held = held_.find(name);
    if (!holds) {
      if (held == held_.end()) continue;
      if (held->second.told) {
        news.push_back(
            {name, std::string(rule.severity), held->second.summary, held->second.since, false, run.now});
      }
      held_.erase(held);
      continue;
    }
    Pending& pending =
        held == held_.end() ? held_.emplace(name, Pending{.since = run.now}).first->second : held->second;
    pending.summary = *holds;
    if (pending.told || run.now - pending.since < rule.for_s) continue;
    pending.told = true;
    news.push_back({name, std::string(rule.severity), pending.summary, pending.since});
  }
  // Incidents from before watching began are not reported.
  if (last_incident_ >= 0) {
    for (const Incident& incident : run.incidents) {
      if (incident.wall_time <= last_incident_) continue;
      news.push_back({"LonghaulIncident", std::string(rule_of("LonghaulIncident").severity),
                      incident_summary(incident), incident.wall_time});
    }
  }
  last_incident_ = std::max(last_incident_, 0.0);
  for (const Incident& incident : run.incidents)
    last_incident_ = std::max(last_incident_, incident.wall_time);
  return news;
}

std::vector<Alert> AlertBook::firing() const {
  std::vector<Alert> all;
  for (const AlertRule& rule : kAlertRules) {
    const auto held = held_.find(std::string(rule.name));
    if (held != held_.end() && held->second.told)
      all.push_back({held->first, std::string(rule.severity), held->second.summary, held->second.since});
  }
  std::ranges::stable_sort(all, {}, [](const Alert& alert) { return alert.severity != "critical"; });
  return all;
}

std::string alert_json(const RunView& run, const Alert& alert) {
  using nlohmann::ordered_json;
  const std::string summary = printable(alert.summary);
  const ordered_json labels = {{"alertname", alert.name}, {"job", run.job}, {"severity", alert.severity}};
  const std::string ended = alert.firing ? "0001-01-01T00:00:00Z" : wall_time_text(alert.until);
  const ordered_json one = {{"status", alert.firing ? "firing" : "resolved"},
                            {"labels", labels},
                            {"annotations", {{"summary", summary}}},
                            {"startsAt", wall_time_text(alert.since)},
                            {"endsAt", ended}};
  const ordered_json all = {{"version", "4"},
                            {"status", alert.firing ? "firing" : "resolved"},
                            {"receiver", "longhaul"},
                            {"groupLabels", {{"alertname", alert.name}}},
                            {"commonLabels", labels},
                            {"commonAnnotations", {{"summary", summary}}},
                            {"alerts", ordered_json::array({one})},
                            {"text", fmt::format("{}: {} {}: {}", run.job, alert.name,
                                                 alert.firing ? "fires" : "is over", summary)}};
  return all.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace longhaul::observe
