// The recorded steps of a run's ranks as files, one per rank: trace/rank-<n>.jsonl in the run folder. A line
// describes a process that began to record (its place in the mesh, its clock) or one complete step; a line
// torn by a crash is left out. A file grows to 64 MiB at most.
//
// Times are converted to one clock, rank 0's. Ranks on one machine share it; for others the difference was
// measured when they began (comm/clock_offset.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/file.h"
#include "observe/trace/spans.h"

namespace longhaul::observe {

struct TraceRank {
  int64_t rank = 0, generation = 1;
  int64_t pp = 0, dp = 0, cp = 0, tp = 0;  // its coordinates
  int64_t clock_offset_ns = 0;             // rank 0's clock minus its own
  int64_t clock_error_ns = 0;              // error bound of that difference
};

class TraceWriter {
 public:
  static constexpr int64_t kMostBytes = 64 << 20;
  TraceWriter(const std::filesystem::path& run_folder, const TraceRank& rank,
              int64_t most_bytes = kMostBytes);
  bool full() const { return full_; }
  void write(const StepTrace& step);  // an error of writing is logged once and ends nothing

 private:
  void append(const std::string& line);
  File file_;
  int64_t most_bytes_, bytes_ = 0;
  bool full_ = false;
};

struct RankTrace {
  TraceRank rank;                // of the latest process
  std::vector<StepTrace> steps;  // ascending; of a step that was done again the last record
};

// Parses a line of a trace file. If it begins a process, `rank` is set; else the step is returned, with its
// times on rank 0's clock. Error 65 for anything else.
std::optional<StepTrace> trace_line(std::string_view line, const std::string& where, TraceRank& rank);

struct StepChoice {
  int64_t first = 0, last = std::numeric_limits<int64_t>::max();
};

StepChoice step_choice(const std::string& text);  // "20", "20-40", "" (all); else error 64

bool has_trace(const std::filesystem::path& run_folder);
// By rank, ascending. Error 65 where there is no trace: it names the option that makes one.
std::vector<RankTrace> read_trace(const std::filesystem::path& run_folder, const StepChoice& steps = {});
// Error 65 where none of the ranks has a step: it says which steps there are. `chosen`: the choice as it was
// typed.
void require_steps(const std::vector<RankTrace>& ranks, const std::filesystem::path& run_folder,
                   const std::string& chosen);
// The trace of one step, the last that all ranks of the latest start have; empty: there is none.
std::vector<RankTrace> read_last_step(const std::filesystem::path& run_folder);

}  // namespace longhaul::observe
