// How the time of recorded steps was used, rank by rank. It has three parts that sum to the wall time:
//
//   busy     the computing thread worked
//   exposed  it waited for a call that all participants had entered: communication that nothing hides
//   idle     the rest: it waited for ranks that had not entered the call (a pipeline bubble, a slow rank),
//            waited for data, or did what no span names
//
// Calls of ranks are matched by group and number, messages by their order from one rank to another. Nothing
// is assumed about ranks without a record.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "observe/trace/trace_file.h"

namespace longhaul::observe {

// Interval: [begin, end) in nanoseconds.
struct Interval {
  int64_t begin = 0, end = 0;
};

struct TimeUse {
  int64_t rank = 0;
  int64_t steps = 0;
  int64_t wall_ns = 0, busy_ns = 0, exposed_ns = 0, idle_ns = 0;  // sums over all steps
};

// Meeting: for one step of all ranks, by rank and call, the time at which all participants had begun the
// call; and which calls carry a message to which.
struct Meeting {
  struct Message {
    size_t from_rank = 0, from_call = 0, to_rank = 0, to_call = 0;  // indices into the lists
  };
  std::vector<std::vector<int64_t>> complete_ns;
  std::vector<Message> messages;
};
struct StepOfRank {
  int64_t rank = 0;
  const StepTrace* step = nullptr;
};
Meeting meeting_of(std::span<const StepOfRank> ranks);

// The intervals in which the computing thread waited for the call: at most two, disjoint.
std::vector<Interval> blocked_by(const CallSpan& call);
TimeUse time_use(const StepOfRank& rank, std::span<const int64_t> complete_ns);

// Over all steps of the trace, by rank.
std::vector<TimeUse> time_use(const std::vector<RankTrace>& ranks);
std::string time_use_table(const std::vector<TimeUse>& ranks, bool colours);

// The steps that any rank has, each with the ranks that have it.
std::vector<std::vector<StepOfRank>> steps_of(const std::vector<RankTrace>& ranks);

}  // namespace longhaul::observe
