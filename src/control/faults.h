// What can go wrong in a run and what is done about it: the table of docs/sources/reliability.md §5.3. A
// Fault is what was observed of one rank or node. classify() chooses its class and the action, from the fault
// and the history of the run. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "control/policy.h"
#include "control/wire/messages.h"

namespace longhaul::control {

struct Ledger;

enum class FaultClass {
  kDevice,               // the device is broken: its node is not used again
  kDeviceDegraded,       // the device still works, but its node is replaced at the next checkpoint
  kDeviceOrApplication,  // either of the two; a second fault decides
  kUserCode,             // the same trace on several ranks, or ranks that call different collectives
  kUnclear,              // a crash of one rank
  kKilled,               // SIGKILL or SIGTERM from outside this program
  kHostMemory,           // killed by the kernel for lack of memory
  kDeviceMemory,         // an allocation failed
  kNetwork,
  kFailSlow,
  kStorage,
  kHang,
  kNumeric,        // NaN or loss spike: the rank asks for a rollback
  kNodeDaemon,     // the daemon died, its machine did not
  kMachine,        // unreachable
  kCommunication,  // ranks lost their connections, and no cause is known
  kPreempted,
  kFenced,         // a newer generation runs
  kConfiguration,  // an error of usage, data or checkpoint: a restart would fail again
  kInternal,       // a bug of this program
  kDeadline,       // a state took too long
  kFailedCheck,
  kDeadlyBatch,
  kOperator,
  kDriver,     // the driver was away, and ranks ended meanwhile
  kStuckWork,  // work of a rank's background threads hangs: a save, or prefetched batches
};
std::string_view name_of(FaultClass fault);  // "user_code"
std::optional<FaultClass> fault_class_named(std::string_view name);

enum class Action {
  kTolerate,             // only record it
  kAlarm,                // alert people and continue to train
  kRestart,              // restart all ranks on the same nodes
  kRestartNode,          // restart the daemon, then all ranks
  kEvict,                // restart all ranks without this node
  kEvictIfReplaceable,   // evict the node if another can replace it; else restart in place
  kDiagnose,             // check the node, then evict it or restart in place
  kReplaceAtCheckpoint,  // evict the node at a checkpoint, when no work is lost by it
  kSearchBatch,          // search for the samples that kill
  kStop,                 // end with 93: a restart would not help
  kEnd,                  // end with the rank's own exit code
};
std::string_view name_of(Action action);  // "evict_node"

struct Fault {
  enum class Source { kExit, kHealth, kHang, kNodeSilent, kNodeDied, kDeadline, kCheck, kOperator, kDriver };
  Source source = Source::kExit;
  int64_t rank = -1;
  std::string node, device;
  int64_t step = -1;
  int64_t status = 0;  // for kExit: the exit code, or 128 + signal
  bool out_of_memory = false;
  std::string trace;  // see trace_of()
  // For kHealth: the report's kind; for kHang: the work that hangs, empty for the rank itself.
  std::string kind;
  int64_t number = 0;     // number of the report
  bool program = false;   // for kHang: the ranks called different collectives
  bool reachable = true;  // for kNodeDied
  std::string text;       // for people
  double age_s = 0;       // seconds from the fault until it was noticed
  // For kHang: seconds from the deadline of what hangs until it was noticed.
  std::optional<double> overdue_s{};
  bool own = false;     // for kExit: the rank says that no other rank's failure was its reason
  double failed_s = 0;  // when it failed, by the driver's clock; the node reports it as an age
  // For a crash: the ranks that ended by themselves with the same trace, including this one.
  std::vector<int64_t> ranks;
};

// True if the fault may be only the consequence of another rank's fault: such a fault never outranks another
// (docs/sources/reliability.md §5.2).
bool is_victim(const Fault& fault);
// Chooses the cause among faults that were seen together: the first seen that is no victim; else, among the
// ranks that say that they failed by themselves, the first to fail; else the first of all.
const Fault& first_cause(const std::vector<Fault>& faults);

struct Verdict {
  FaultClass fault = FaultClass::kUnclear;
  Action action = Action::kRestart;
  ExitCode code = ExitCode::kDoNotRestart;  // for kStop and kEnd
  std::string why;                          // the reason, if the action is not the first one for its class
};

Verdict classify(const Fault& fault, const Ledger& history, const Policy& policy, double now_s);

// The exit codes after which an unchanged restart cannot help. The driver ends the run with them,
// deploy/slurm.sh and deploy/jobset.yaml end the job, and docs/reference/exit-codes.md lists them (a test
// compares all of these).
bool restart_is_futile(ExitCode code);

// True if the action ends the ranks.
bool restarts_ranks(Action action);

// What crashes of one cause have in common: the stack, error or last log line without the numbers, addresses
// and paths that differ between ranks and starts. At most 400 bytes; empty where there is nothing to compare.
std::string trace_of(const RankExited& exited);
std::string last_line_of(const RankExited& exited);  // the last line of its log; empty: there is none

}  // namespace longhaul::control
