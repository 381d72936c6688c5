// Where the time of recorded steps went, rank by rank. Three parts that sum to the wall time:
//
//   busy     the computing thread worked
//   exposed  it stood still for a call, and all who take part had come: communication that nothing hides
//   idle     the rest: it stood still for ranks that had not come (a pipeline's bubble, a slow rank), waited for data, or did what no span names
//
// Calls of ranks belong together by group and number, messages by their order from one rank to another; of ranks without a record nothing is assumed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "observe/trace/trace_file.h"

namespace longhaul::observe {

// [begin, end) in nanoseconds.
struct Interval {
  int64_t begin = 0, end = 0;
};

struct TimeUse {
  int64_t rank = 0;
  int64_t steps = 0;
  int64_t wall_ns = 0, busy_ns = 0, exposed_ns = 0, idle_ns = 0;  // of all steps together
};

// Of one step of all ranks: when all who take part in a call had begun it, by rank and call; and which calls carry a message to which.
struct Meeting {
  struct Message {
    size_t from_rank = 0, from_call = 0, to_rank = 0, to_call = 0;  // places in the lists
  };
  std::vector<std::vector<int64_t>> complete_ns;
  std::vector<Message> messages;
};
struct StepOfRank {
  int64_t rank = 0;
  const StepTrace* step = nullptr;
};
Meeting meeting_of(std::span<const StepOfRank> ranks);

// When the computing thread stood still for the call: at most two, apart from each other.
std::vector<Interval> blocked_by(const CallSpan& call);
TimeUse time_use(const StepOfRank& rank, std::span<const int64_t> complete_ns);

// Over all steps of the trace, by rank.
std::vector<TimeUse> time_use(const std::vector<RankTrace>& ranks);
std::string time_use_table(const std::vector<TimeUse>& ranks, bool colours);

// The steps that any rank has, each with the ranks that have it.
std::vector<std::vector<StepOfRank>> steps_of(const std::vector<RankTrace>& ranks);

}  // namespace longhaul::observe
