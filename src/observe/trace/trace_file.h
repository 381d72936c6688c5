// The recorded steps of a run's ranks as files, one a rank: trace/rank-<n>.jsonl in the run folder. A line is a process that began to record (its place in
// the mesh, its clock) or a step, whole; one that a crash has torn is left out. A file grows to 64 MiB and no further.
//
// Times are read on one clock, rank 0's: ranks on one machine have the same, of others the difference was measured when they began (comm/clock_offset.h).
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
  int64_t clock_error_ns = 0;              // which may be wrong by that much
};

class TraceWriter {
 public:
  static constexpr int64_t kMostBytes = 64 << 20;
  TraceWriter(const std::filesystem::path& run_folder, const TraceRank& rank, int64_t most_bytes = kMostBytes);
  bool full() const { return full_; }
  void write(const StepTrace& step);  // what cannot be written is said in the log, once, and ends nothing

 private:
  void append(const std::string& line);
  File file_;
  int64_t most_bytes_, bytes_ = 0;
  bool full_ = false;
};

struct RankTrace {
  TraceRank rank;                // the latest process's
  std::vector<StepTrace> steps;  // ascending; of a step that was done again the last
};

// A line of a trace file: `rank` is set where it begins a process, else the step is returned, its times on rank 0's clock. Error 65 for anything else.
std::optional<StepTrace> trace_line(std::string_view line, const std::string& where, TraceRank& rank);

struct StepChoice {
  int64_t first = 0, last = std::numeric_limits<int64_t>::max();
};

StepChoice step_choice(const std::string& text);  // "20", "20-40", "" (all); else error 64

bool has_trace(const std::filesystem::path& run_folder);
// By rank, ascending. Error 65 where there is none: it says which key makes one.
std::vector<RankTrace> read_trace(const std::filesystem::path& run_folder, const StepChoice& steps = {});
// Error 65 where none of the ranks has a step: it says which there are. `chosen`: as it was typed.
void require_steps(const std::vector<RankTrace>& ranks, const std::filesystem::path& run_folder, const std::string& chosen);
// Of one step, the last that all ranks of the latest start have; empty: none.
std::vector<RankTrace> read_last_step(const std::filesystem::path& run_folder);

}  // namespace longhaul::observe
