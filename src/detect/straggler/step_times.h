// StepTimes: the data from which stragglers are found (docs/sources/reliability.md §5.9). For each step and
// rank it has the time that the rank computed, waited for data and waited for others, and how much work it
// had; for each collective call the time of each member from entering it to its end, by the member's own
// clock. Clocks need not agree. Times are seconds; NaN: unknown. step_times() fills it from traces; SlowRanks
// fills it from heartbeats.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "observe/trace/trace_file.h"

namespace longhaul::detect {

inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// Work: the quantities to which a rank's compute time is proportional: T = a·tokens + b·Σ lengths² (softmax
// attention over packed documents) + c·rows of experts. All zero: unknown, and assumed equal for all peers.
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
  int64_t peers = 0;  // ranks with the same number do the same work: the pipeline stage
};

// CallTimes: a collective call of one step.
struct CallTimes {
  std::string group, kind;      // "world/dp 3", "all_reduce"
  std::vector<size_t> members;  // indices into StepTimes::ranks
  std::vector<double> in_it_s;  // one per member
};

struct TimedStep {
  int64_t step = 0;
  double step_s = 0;
  std::vector<RankTimes> ranks;  // in the order of StepTimes::ranks
  std::vector<CallTimes> calls;  // may be empty
};

struct StepTimes {
  std::vector<RankPlace> ranks;
  std::vector<TimedStep> steps;  // ascending
};

// Keeps the steps that all ranks have recorded, and leaves out calls that some member has not recorded.
StepTimes step_times(const std::vector<observe::RankTrace>& traces);

}  // namespace longhaul::detect
