#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "control/driver/driving.h"
#include "control/wire/record.h"
#include "observe/board/run_status.h"

namespace longhaul::control {
namespace {

// Values that are unknown yet are left out.
nlohmann::ordered_json incident_json(const IncidentRecord& record) {
  observe::Incident incident;
  static_cast<observe::IncidentReport&>(incident) = record.report();
  incident.wall_time = record.noticed_s();
  incident.open = !record.closed.has_value();
  nlohmann::ordered_json json = observe::incident_json(incident), known = nlohmann::ordered_json::object();
  for (const auto& [name, value] : json.items()) {
    if (!value.is_null()) known[name] = value;
  }
  return known;
}

// To four digits: the status of a thousand ranks must fit into a frame.
std::map<std::string, double> rounded(std::map<std::string, double> values) {
  for (auto& [name, value] : values) value = std::strtod(fmt::format("{:.4g}", value).c_str(), nullptr);
  return values;
}

}  // namespace

nlohmann::ordered_json Driving::status(double now_s) const {
  nlohmann::ordered_json json;
  json["run"] = plan_.run;
  json["recipe"] = plan_.recipe;
  json["state"] = std::string(name_of(state_));
  json["state_reason"] = ledger_.state_reason;
  json["state_seconds"] = now_s - state_since_s_;
  json["generation"] = ledger_.generation;
  // for a driver whose journal is lost
  json["newest_generation"] = std::max(ledger_.generation, newest_seen_);
  json["step"] = std::max<int64_t>(0, std::max(least_step(), ledger_.resumed_step));
  json["steps"] = plan_.steps;
  json["started_wall_time"] = ledger_.began_s;
  json["restarts"] = ledger_.restarts;
  json["restarts_left"] = ledger_.budget_left(now_s, policy_);
  json["committed_step"] = std::max(committed_, ledger_.committed_step);
  const double productive_s = time_.productive_s(), all_s = std::max(0.0, now_s - ledger_.began_s);
  json["productive_seconds"] = productive_s;
  json["lost_seconds"] = std::max(0.0, all_s - productive_s);
  json["effective_ratio"] = time_.ratio(now_s);
  json["effective_ratio_hour"] = time_.ratio_of_hour(now_s);
  json["mesh"] = nlohmann::ordered_json::array();
  for (const observe::MeshAxis& axis : (width_ != nullptr ? *width_ : plan_.widths.front()).mesh)
    json["mesh"].push_back({{"name", axis.name}, {"size", axis.size}});

  json["nodes"] = nlohmann::ordered_json::array();
  for (const auto& [name, record] : ledger_.nodes) {
    const auto node = nodes_.find(name);
    const bool known = node != nodes_.end();
    json["nodes"].push_back(
        {{"node", name},
         {"host", record.host},
         {"pid", known ? node->second.hello.pid : 0},
         {"state", record.state},
         {"last_beat_age_s", known ? now_s - node->second.heard_s : now_s - ledger_.began_s},
         {"reason", record.reason},
         {"slots", record.slots},
         {"leaving", record.leaving}});
    if (known && !node->second.machine.empty())
      json["nodes"].back()["machine"] = rounded(node->second.machine);
  }

  json["ranks"] = nlohmann::ordered_json::array();
  constexpr const char* kStates[] = {"starting", "running", "ended", "lost"};
  for (const auto& [number, rank] : ranks_) {
    const RankBeat beat = rank.beat.value_or(RankBeat{.rank = number, .generation = ledger_.generation});
    const double since_s = rank.beat ? now_s - rank.beat_s : 0;
    nlohmann::ordered_json of_rank = {{"rank", number},
                                      {"node", rank.node},
                                      {"pid", beat.pid},
                                      {"state", kStates[static_cast<size_t>(rank.state)]},
                                      {"generation", beat.generation},
                                      {"step", beat.step},
                                      {"micro_step", beat.micro_step},
                                      {"phase", beat.phase},
                                      {"phase_age_s", beat.phase_age_s + since_s},
                                      {"task_phase", record_to_json(beat.task_phase)},
                                      {"beat_age_s", beat.beat_age_s + since_s},
                                      {"progress_age_s", beat.progress_age_s + since_s},
                                      {"collective", record_to_json(beat.collective)}};
    if (std::isfinite(beat.loss)) of_rank["loss"] = beat.loss;
    if (std::isfinite(beat.gradient_norm)) of_rank["gradient_norm"] = beat.gradient_norm;
    of_rank["tokens"] = beat.tokens;
    of_rank["resident_bytes"] = beat.resident_bytes;
    if (beat.device_bytes > 0) of_rank["device_bytes"] = beat.device_bytes;
    of_rank["step_seconds"] = beat.step_seconds;
    of_rank["phase_seconds"] = record_to_json(beat.phase_seconds);
    if (rank.exited) of_rank["status"] = rank.exited->status;
    json["ranks"].push_back(std::move(of_rank));
  }

  constexpr size_t kMost = 50;
  json["incidents"] = nlohmann::ordered_json::array();
  const size_t first = ledger_.incidents.size() > kMost ? ledger_.incidents.size() - kMost : 0;
  for (size_t i = first; i < ledger_.incidents.size(); ++i)
    json["incidents"].push_back(incident_json(ledger_.incidents[i]));
  return json;
}

}  // namespace longhaul::control
