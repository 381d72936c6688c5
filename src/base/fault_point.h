// Fault points: named places at which a drill (`longhaul bench faults`) or a test makes this process fail, as processes fail in the field. What is to
// happen stands in LONGHAUL_FAULTS, entries between ';':
//
//   POINT[:CONDITION=VALUE…] ACTION[=VALUE]        step.update:step=12:rank=2:generation=1 kill; checkpoint.before_rename:count=2 abort
//
//   conditions  step, rank, generation, node (all that are given hold; rank, generation and node are RANK, LONGHAUL_GENERATION and LONGHAUL_NODE of the
//               environment), count (only the n-th time that the others hold, from 1; otherwise every time), once=FILE (only while there is no such
//               file; who meets it makes it, so that it comes once to a whole run, however often its processes are started: FaultMark),
//               until=FILE (of wait: what ends it)
//   actions     kill · segfault · abort · stop (SIGSTOP) · hang · slow=SECONDS · wait=SECONDS (at most: until there is the FILE of until=) · eat=BYTES (of memory, which it then gives back: too much for a memory
//               group with less) · exit=CODE · fail=CODE (throws an Error of that exit code) ·
//               corrupt (the caller damages what it has in hand: fault_point returns true)
//
// Where: start.load (of a start that resumes) · step.data · step.passes · step.reduce (gradients of several ranks) · step.update · step.updated ·
// call.move (of a collective call between processes, all of which have come) · checkpoint.copied · checkpoint.write · checkpoint.before_rename · checkpoint.after_rename · memory.write · memory.replicate · memory.before_commit ·
// memory.after_commit · memory.message (of a file that goes to another machine) · start.inventory · start.fetch (of a start that looks into memory).
//
// Without the variable a fault point costs one branch. With it, the first one says on standard error what is planned. Any thread.
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

// kUsage of what is not one.
std::vector<PlannedFault> parse_faults(std::string_view text);

// What a fault that comes once leaves in its file.
struct FaultMark {
  int64_t generation = 0, rank = 0;  // LONGHAUL_GENERATION and RANK of who met it
  double wall_time = 0;              // Unix seconds
  int64_t process = 0;               // its number: of exactly this one, which a status may not name yet
  std::string node;                  // LONGHAUL_NODE; "-": none
};
std::optional<FaultMark> read_fault_mark(const std::filesystem::path& file);  // nothing: it has not come
// False: it has come before. Error kDisk: the file cannot be made.
bool leave_fault_mark(const std::filesystem::path& file, const FaultMark& mark);

// Which of the planned faults meets a process that is here; counts the meeting. For fault_point, and for tests.
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

void end_by_segfault();  // as a real one does, in any thread

namespace fault_point_detail {
extern const bool kPlanned;  // LONGHAUL_FAULTS is set
bool meet(std::string_view point, int64_t step);
}  // namespace fault_point_detail

// True: the caller damages what it has in hand. step: of training, where there is one.
inline bool fault_point(std::string_view point, int64_t step = -1) {
  return fault_point_detail::kPlanned && fault_point_detail::meet(point, step);
}

}  // namespace longhaul
