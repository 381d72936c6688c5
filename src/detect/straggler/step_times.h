// StepTimes: what a straggler is told from (docs/sources/reliability.md §5.9): of each step and rank how long it computed, waited for data and stood still for
// others, and how much work it had; and of each collective call how long each member was in it, from its entering to its end, by its own clock. Clocks
// need not agree. Seconds; NaN: not known. Filled from a trace here, from the boards of ranks by whoever reads them.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "observe/trace/trace_file.h"

namespace longhaul::detect {

inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// What a rank's computing is proportional to: T = a·tokens + b·Σ lengths² (softmax attention over packed documents) + c·rows of experts. All zero:
// not known, and taken to be the same for all peers.
struct Work {
  double tokens = 0, length_squares = 0, expert_rows = 0;
  bool known() const { return tokens > 0 || length_squares > 0 || expert_rows > 0; }
};

struct RankTimes {
  double compute_s = kUnknown;  // without waits
  double data_s = 0;
  double wait_s = kUnknown;  // in calls, for others and for the network
  Work work;
};

struct RankPlace {
  int64_t rank = 0;
  std::string host;
  int64_t peers = 0;  // ranks with the same number do the same: the stage of the pipeline
};

// A collective call of one step.
struct CallTimes {
  std::string group, kind;      // "world/dp 3", "all_reduce"
  std::vector<size_t> members;  // places in StepTimes::ranks
  std::vector<double> in_it_s;  // of each
};

struct TimedStep {
  int64_t step = 0;
  double step_s = 0;
  std::vector<RankTimes> ranks;  // as StepTimes::ranks
  std::vector<CallTimes> calls;  // may be empty
};

struct StepTimes {
  std::vector<RankPlace> ranks;
  std::vector<TimedStep> steps;  // ascending
};

// Of the steps that all ranks have recorded; calls that some member has not are left out.
StepTimes step_times(const std::vector<observe::RankTrace>& traces);

}  // namespace longhaul::detect
