// Fault points: named places at which a drill (`longhaul bench faults`) or a test makes this process fail, as
// processes fail in production. LONGHAUL_FAULTS lists the planned faults, separated by ';':
//
//   POINT[:CONDITION=VALUE…] ACTION[=VALUE]
//       step.update:step=12:rank=2:generation=1 kill; checkpoint.before_rename:count=2 abort
//
//   conditions  step, rank, generation, node (all that are given hold; rank, generation and node are RANK,
//               LONGHAUL_GENERATION and LONGHAUL_NODE of the environment), count (only the n-th time that the
//               others hold, from 1; otherwise every time), once=FILE (only while there is no such file; who
//               meets it makes it, so that it comes once to a whole run, however often its processes are
//               started: FaultMark), until=FILE (of wait: what ends it)
//   actions     kill · segfault · abort · stop (SIGSTOP) · hang · slow=SECONDS · wait=SECONDS (at most: until
//               there is the FILE of until=) · eat=BYTES (of memory, which it then gives back: too much for a
//               memory group with less) · exit=CODE · fail=CODE (throws an Error of that exit code) · corrupt
//               (the caller damages what it has in hand: fault_point returns true)
//
// Points: start.load (at a start that resumes) · open.load (of inference) · step.data · step.passes ·
// step.reduce (gradients of several ranks) · step.update · step.updated · call.move (a collective call
// between processes that all have entered) · checkpoint.copied · checkpoint.write · checkpoint.before_rename
// · checkpoint.after_rename · memory.write · memory.replicate · memory.before_commit · memory.after_commit ·
// memory.message (a file that goes to another machine) · start.inventory · start.fetch (at a start that looks
// for checkpoints in memory) · data.sample (whenever a sample is read; `step` is the sample's place in the
// order of the data).
//
// Without the variable a fault point costs one branch. With it, the first fault point reports the plan on
// standard error. Any thread may meet one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace longhaul {

enum class FaultAction { kKill, kSegfault, kAbort, kStop, kHang, kSlow, kWait, kEat, kExit, kFail, kCorrupt };

struct PlannedFault {
  std::string point;
  std::optional<int64_t> step, rank, generation, count;
  std::optional<std::string> node, once, until;
  FaultAction action = FaultAction::kKill;
  double value = 0;  // of kSlow and kWait: seconds; of kEat: bytes; of kExit and kFail: the code
  int64_t met = 0;   // how often all but count has held
};

// kUsage where the text is no list of faults.
std::vector<PlannedFault> parse_faults(std::string_view text);

// FaultMark: what a fault with once=FILE writes into its file.
struct FaultMark {
  int64_t generation = 0, rank = 0;  // LONGHAUL_GENERATION and RANK of the process that met it
  double wall_time = 0;              // Unix seconds
  int64_t process = 0;               // its number: of exactly this one, which a status may not name yet
  std::string node;                  // LONGHAUL_NODE; "-": none
};
// nothing: the fault has not come.
std::optional<FaultMark> read_fault_mark(const std::filesystem::path& file);
// Returns false if the fault has come before. Error kDisk: the file cannot be created.
bool leave_fault_mark(const std::filesystem::path& file, const FaultMark& mark);

// FaultPlan decides which of the planned faults a process meets at a point, and counts the meetings. Used by
// fault_point and tests.
class FaultPlan {
 public:
  using Variable = std::function<std::optional<std::string>(const char* name)>;
  FaultPlan(std::string_view text, const Variable& variable);
  std::optional<PlannedFault> meet(std::string_view point, int64_t step);

 private:
  std::mutex mutex_;
  std::vector<PlannedFault> faults_;
  FaultMark who_;
};

void end_by_segfault();  // like a real one, in any thread

namespace fault_point_detail {
extern const bool kPlanned;  // LONGHAUL_FAULTS is set
bool meet(std::string_view point, int64_t step);
}  // namespace fault_point_detail

// True: the caller must damage its current data. step: the training step, where there is one.
inline bool fault_point(std::string_view point, int64_t step = -1) {
  return fault_point_detail::kPlanned && fault_point_detail::meet(point, step);
}

}  // namespace longhaul
