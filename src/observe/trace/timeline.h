// The timeline of recorded steps, independent of the file format: slices of a rank's rows, messages between
// ranks, names. The assignment to rows is made here only; a sink writes it down. Slices of a row are nested
// or disjoint.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "observe/trace/time_use.h"

namespace longhaul::observe {

// Ranks of a step that was not recorded but planned have numbers from here on, next to ranks that ran.
inline constexpr int64_t kFirstPlannedRank = 1'000'000;

struct TimelineSlice {
  int64_t rank = 0, row = 0;
  std::string name;
  const char* category = "";
  Interval time;                         // relative to the first step shown
  nlohmann::ordered_json arguments;      // an object: step, micro_batch, group, …
  std::vector<int64_t> sends, receives;  // numbers of messages
};

class TimelineSink {
 public:
  virtual ~TimelineSink() = default;
  virtual void slices(const std::vector<TimelineSlice>& of_a_step_and_rank) = 0;
  virtual void name_rank(const TraceRank& rank, const std::string& name) = 0;
  virtual void name_row(int64_t rank, int64_t row, const std::string& name) = 0;
};

void walk_timeline(const std::vector<RankTrace>& ranks, TimelineSink& sink);

}  // namespace longhaul::observe
