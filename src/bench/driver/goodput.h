// `longhaul bench goodput`: how much of its time a real run trains while ranks are killed at random moments
// (docs/sources/reliability.md §8.2, E1). A small run of process ranks under `launch` meets failures drawn
// from an exponential distribution, at the same moments of each way of coming back:
//
//   requeued     launch may not restart: it ends, waits in a queue, and begins again at the last checkpoint
//                on the disk, as a batch system's job does that asks to be queued again
//   restarted    the driver starts the ranks again, at the last checkpoint on the disk
//   memory       the same, with a checkpoint of every step in the nodes' memory and its copy on a partner
//
// The ways come one after the other, each for so many minutes. From the run's own events: useful is the time
// of the steps whose results the run still has at the end, each counted once. The rest is lost: while nothing
// trained after a failure, in steps that were done again, and in whatever else happens between steps. Beside
// the measured share stand the formula and the simulation that plan for large runs
// (plan/reliability/effective_rate.h), with the times that this run measured; they know nothing of the losses
// between steps.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "observe/events/event.h"
#include "observe/table.h"

namespace longhaul::bench {

struct GoodputRequest {
  double minutes = 60;  // of each way
  double mean_to_failure_s = 120;
  double checkpoint_s = 20;      // between checkpoints on the disk
  double queue_s = 10;           // a job that is queued again waits so long
  uint64_t seed = 1;             // of the moments and of the ranks
  int64_t ranks = 2;             // on two nodes
  std::filesystem::path folder;  // of the runs and their logs; empty: a temporary one
};

// Failure: a rank was killed at this moment (Unix time); the moment at which the driver could not name any
// running rank is `missed`.
struct InjectedFailure {
  double unix_s = 0;
  int64_t rank = 0;
  bool missed = false;
};

struct GoodputRow {
  std::string way;
  int64_t failures = 0, missed = 0;    // ranks that were killed; moments at which none ran
  int64_t steps = 0, steps_again = 0;  // that the run has in the end; that were done more than once
  double wall_s = 0, useful_s = 0, again_s = 0, down_s = 0;
  double step_s = 0;      // the median
  double interval_s = 0;  // between what a failure goes back to
  double restart_s = 0;   // from a failure to the beginning of the next step, the mean
  double formula = 0, simulated = 0;
  double measured() const { return wall_s > 0 ? useful_s / wall_s : 0; }
};

// Seconds from the beginning at which failures come, within `length_s`.
std::vector<double> failure_times(uint64_t seed, double mean_s, double length_s);

// Reads a row from the events of a run between `begin_s` and `end_s` (Unix time). interval_s: seconds between
// checkpoints that survive a failure. Formula and simulation take the number of failures and the restart time
// from the row.
GoodputRow goodput_of(const std::string& way, const std::vector<observe::Event>& events, double begin_s,
                      double end_s, const std::vector<InjectedFailure>& failures, double interval_s);

std::vector<GoodputRow> measure_goodput(const GoodputRequest& request);

nlohmann::ordered_json to_json(const GoodputRow& row);
observe::Table table_of(const GoodputRequest& request, const std::vector<GoodputRow>& rows);

}  // namespace longhaul::bench
