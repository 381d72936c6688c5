// `longhaul bench faults`: does a supervised run come back from what happens in the field? Small runs of
// several process ranks under `longhaul launch` meet planned faults one after the other
// (docs/sources/reliability.md §8.1): ranks that are killed, crash, hang or are stopped in every part of a
// step and of a checkpoint; ranks that the kernel ends when their memory group has no more; node daemons that
// are killed, or frozen with their connection open; daemons that are started again at once; drivers that are
// killed, held up, lose their journal, or may open no more files; an eviction on a full disk; a file system
// that fills. In every fourth run each node is a machine in a network of its own: links drop, connections are
// half open, a rank is slower than its peers. Each is what happens in the field, none an exit code; what this
// user may not do (memory groups, mounting, networks) is left out. Nobody helps. What is checked of each
// (§8.2):
//
//   recovered    the run continued by itself and ended successfully
//   named        the incident names the rank, or the node, that had the fault
//   equal bits   losses and norms of all steps are those of a run without faults
//   kept         no start resumed from a step before the newest committed checkpoint
//
// Each fault leaves a mark when it occurs (base/process/fault_point: once), by which its incident is found.
// If a fault never occurred, because its run had ended before, none of these properties holds. The seed
// determines ranks, steps, places and order.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "observe/events/event.h"
#include "observe/table.h"

namespace longhaul::bench {

struct FaultsRequest {
  int64_t count = 30;
  uint64_t seed = 1;
  std::vector<int64_t> ranks = {4};  // rank counts of the runs, in turn
  int64_t faults_a_run = 10;
  int64_t beside = 3;  // runs beside each other: most of the time they wait
  // of runs, their logs and outcomes.jsonl; good runs do not stay. Empty: temporary
  std::filesystem::path folder;
};

struct Drill {
  std::string kind;   // "killed", "hang", …: kinds_of_drills()
  std::string place;  // fault point: "step.update"
  int64_t rank = 0, step = 0;
  // Injected by this process: into a rank while it is held, its daemon, the driver or the disk.
  bool from_outside = false;
};
std::vector<std::string> kinds_of_drills();

struct DrillOutcome {
  Drill drill;
  int64_t ranks = 0;
  bool happened = false, recovered = false, named = false, same_bits = false, kept = false;
  std::string incident;  // the class the driver gave it; empty: there was none
  std::optional<double> detected_milliseconds, overdue_milliseconds, diagnosed_milliseconds,
      recovered_milliseconds;
  std::string problem;  // what was wrong, and where to look
  bool good() const { return happened && recovered && same_bits && kept; }
};

constexpr int64_t kDrillCheckpointEvery = 2;  // steps, in a run that meets drills

// Planned for one run; `steps` is how many the run takes.
struct DrillPlan {
  std::vector<Drill> drills;
  int64_t steps = 0;
  bool machines = false;                                         // each node is one, in a network of its own
  std::string faults(const std::filesystem::path& marks) const;  // for LONGHAUL_FAULTS; `marks`: a folder
  static std::filesystem::path mark_of(const std::filesystem::path& marks, size_t drill) {
    return marks / std::to_string(drill);
  }
  // Left where it could not be done from outside: it has not come then, whatever the rank's mark says.
  static std::filesystem::path undone_of(const std::filesystem::path& marks, size_t drill) {
    return marks / fmt::format("{}.undone", drill);
  }
  // What the drill's rank waits for: it has been met from outside.
  static std::filesystem::path met_of(const std::filesystem::path& marks, size_t drill) {
    return marks / fmt::format("{}.met", drill);
  }
};
// `without`: kinds that are not possible here.
DrillPlan plan_drills(uint64_t seed, int64_t run, int64_t ranks, int64_t count,
                      const std::set<std::string>& without = {});
std::set<std::string> kinds_not_here();

std::vector<int64_t> rank_counts(const std::string& text);  // "4,8,16"; kUsage for anything else
std::vector<DrillOutcome> measure_faults(const FaultsRequest& request);
nlohmann::ordered_json to_json(const DrillOutcome& outcome);
observe::Table table_of(const std::vector<DrillOutcome>& outcomes);  // by kind

}  // namespace longhaul::bench
