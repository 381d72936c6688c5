// `longhaul bench faults`: checks whether a supervised run recovers from the faults that occur in practice.
// Small runs of several process ranks under `longhaul launch` get planned faults one after the other
// (docs/sources/reliability.md §8.1): ranks that are killed, crash, hang or are stopped in every part of a
// step and of a checkpoint; ranks that the kernel kills when their memory group is full; node daemons that
// are killed, or frozen with their connection open; daemons that are restarted at once; drivers that are
// killed, delayed, lose their journal, or may open no more files; an eviction on a full disk; a file system
// that fills up. Each fault is the real event, not a simulated exit code; faults for which this user lacks
// permission (memory groups, mounting) are left out. The runs must recover without help. Four properties
// are checked for each fault (§8.2):
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
  // Folder for runs, their logs and outcomes.jsonl; runs without problems are removed. Empty: temporary.
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
  std::optional<double> detected_milliseconds, overdue_milliseconds, diagnosed_milliseconds, recovered_milliseconds;
  std::string problem;  // what was wrong, and where to look
  bool good() const { return happened && recovered && same_bits && kept; }
};

// The drills planned for one run; `steps` is how many steps the run takes.
struct DrillPlan {
  std::vector<Drill> drills;
  int64_t steps = 0;
  std::string faults(const std::filesystem::path& marks) const;  // for LONGHAUL_FAULTS; `marks`: a folder
  static std::filesystem::path mark_of(const std::filesystem::path& marks, size_t drill) { return marks / std::to_string(drill); }
};
// `without`: kinds that are not possible here.
DrillPlan plan_drills(uint64_t seed, int64_t run, int64_t ranks, int64_t count, const std::set<std::string>& without = {});
std::set<std::string> kinds_not_here();

std::vector<int64_t> rank_counts(const std::string& text);  // "4,8,16"; kUsage for anything else
std::vector<DrillOutcome> measure_faults(const FaultsRequest& request);
nlohmann::ordered_json to_json(const DrillOutcome& outcome);
observe::Table table_of(const std::vector<DrillOutcome>& outcomes);  // by kind

}  // namespace longhaul::bench
