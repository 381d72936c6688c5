// RunStatus: the state of a run that its driver writes each second: control/status.json in the run folder,
// always replaced as a whole. The same struct writes and reads it, from one list of fields. Reading is
// tolerant: a missing field, or one of another type, keeps its default; unknown fields are ignored; a file
// that is no JSON is Error 65. Seconds are ages at updated_wall_time. control/ writes it; observe/watch and
// `longhaul launch status` read it.
//
// Incident is the event of that name (observe/events/event.h), from the file's list (the last 50) or the
// event stream.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "observe/board/task_phase_state.h"
#include "observe/events/event.h"

namespace longhaul::observe {

struct CollectiveStatus {
  std::string group, name, kind, state;
  int64_t sequence = -1;  // −1: none yet
  static constexpr auto fields();
};

struct RankStatus {
  int64_t rank = -1;
  std::string node;
  int64_t pid = 0;
  std::string state;  // starting, running, ended, lost
  int64_t generation = 0, step = 0, micro_step = 0;
  std::string phase;  // data, forward, backward, communication, …
  TaskPhaseState task_phase;
  std::string doing() const { return phase_text(phase, task_phase); }
  double phase_age_s = 0, beat_age_s = 0, progress_age_s = 0;
  CollectiveStatus collective;  // the last one
  std::optional<double> loss, gradient_norm;
  int64_t tokens = 0, resident_bytes = 0, device_bytes = 0;
  double step_seconds = 0;
  std::map<std::string, double> phase_seconds;  // of the last step
  static constexpr auto fields();
};

struct NodeStatus {
  std::string node, host;
  int64_t pid = 0;
  std::string state;  // active, spare, lost, evicted
  double last_beat_age_s = 0;
  std::string reason;                       // of an eviction or a loss
  std::map<std::string, double> machine{};  // its last sample, by the names of detect/samples/metrics.h
  static constexpr auto fields();
};

// Incident: the event, with the fields that only the driver's list has.
struct Incident : IncidentReport {
  double wall_time = 0;  // 0: unknown
  bool open = false;     // it is still being handled
  static constexpr auto fields();
};

struct MeshAxis {
  std::string name;
  int64_t size = 1;
  static constexpr auto fields();
};

struct RunStatus {
  // INIT, RENDEZVOUS, CHECK, LOAD, TRAIN, DRAIN, DONE, SUSPECT, DIAGNOSE, REPAIR, FAILED.
  std::string run, recipe, state;
  int64_t generation = 0, step = 0, steps = 0;
  double updated_wall_time = 0, started_wall_time = 0;
  struct Driver {
    int64_t pid = 0;
    std::string host, address;
    static constexpr auto fields();
  } driver;
  int64_t restarts = 0;
  double productive_seconds = 0, lost_seconds = 0;
  std::optional<double> effective_ratio, effective_ratio_hour;
  std::vector<MeshAxis> mesh;  // slowest axis first
  std::vector<NodeStatus> nodes;
  std::vector<RankStatus> ranks;
  std::vector<Incident> incidents;
  static constexpr auto fields();
  int64_t size_of(std::string_view axis) const;  // 1 where the mesh has no such axis
  // The pipeline stage of a rank (below). The mesh may name the same ranks twice, because it also has the
  // axes of the experts.
  int64_t stage_of(int64_t rank) const;
};

// The pipeline stage of a rank of `ranks`: each island (worker of the outer loop) has consecutive ranks, in
// which pp is the slowest axis. 0 where the ranks cannot be divided so.
int64_t stage_of_rank(int64_t rank, int64_t ranks, int64_t workers, int64_t stages);

std::filesystem::path status_file(const std::filesystem::path& run);
RunStatus status_from_json(std::string_view text, const std::string& where = "");
std::string to_json(const RunStatus& status);
Incident incident_from_json(const nlohmann::json& object);
nlohmann::ordered_json incident_json(const Incident& incident);

}  // namespace longhaul::observe
