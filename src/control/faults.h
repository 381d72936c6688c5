// What can go wrong in a run and what is done about it: the table of docs/sources/reliability.md §5.3. A Fault is what was seen of one rank or node;
// classify() says its class and the action, from the fault and from what happened before. Pure functions.
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
  kDevice,               // broken: its node is not used again
  kDeviceDegraded,       // works on, but its node goes at the next checkpoint
  kDeviceOrApplication,  // one of the two; the second time decides
  kUserCode,             // the same trace on several ranks, or ranks that call different things
  kUnclear,              // a crash of one rank
  kKilled,               // SIGKILL or SIGTERM from somebody else
  kHostMemory,           // taken by the kernel
  kDeviceMemory,         // an allocation that failed
  kNetwork,
  kFailSlow,
  kStorage,
  kHang,
  kNumeric,        // NaN or spike: the rank wants to go back
  kNodeDaemon,     // died, its machine did not
  kMachine,        // unreachable
  kCommunication,  // ranks lost each other, and nobody says why
  kPreempted,
  kFenced,         // a newer generation runs
  kConfiguration,  // usage, data, checkpoint: the same again after a restart
  kInternal,       // a bug of ours
  kDeadline,       // a state took too long
  kFailedCheck,
  kDeadlyBatch,
  kOperator,
  kDriver,     // it was away, and ranks ended meanwhile
  kStuckWork,  // of a rank's other threads: a save, batches that are read ahead
};
std::string_view name_of(FaultClass fault);  // "user_code"
std::optional<FaultClass> fault_class_named(std::string_view name);

enum class Action {
  kTolerate,             // nothing but to remember it
  kAlarm,                // tell people, train on
  kRestart,              // all ranks, where they are
  kRestartNode,          // the daemon, then all ranks
  kEvict,                // all ranks, without this node
  kEvictIfReplaceable,   // so, where another node can take its place; else in place
  kDiagnose,             // check the node, then evict it or go on in place
  kReplaceAtCheckpoint,  // evict it when nothing is lost by it
  kSearchBatch,          // find the samples that kill
  kStop,                 // 93: a restart would not help
  kEnd,                  // with the rank's own code
};
std::string_view name_of(Action action);  // "evict_node"

struct Fault {
  enum class Source { kExit, kHealth, kHang, kNodeSilent, kNodeDied, kDeadline, kCheck, kOperator, kDriver };
  Source source = Source::kExit;
  int64_t rank = -1;
  std::string node, device;
  int64_t step = -1;
  int64_t status = 0;  // of kExit: exit code, or 128 + signal
  bool out_of_memory = false;
  std::string trace;                  // see trace_of
  std::string kind;                   // of kHealth; of kHang: the work that hangs, empty for the rank itself
  int64_t number = 0;                 // its number
  bool program = false;               // of kHang: ranks called different things
  bool reachable = true;              // of kNodeDied
  std::string text;                   // for people
  double age_s = 0;                   // from the fault to its being noticed
  std::optional<double> overdue_s{};  // of kHang: from the deadline of what hangs to its being noticed
  bool own = false;                   // of kExit: the rank says that no other rank's failure was its reason
  double failed_s = 0;                // when, by the driver's clock: told as an age by the node that saw it
  // Of a crash: ranks that ended by themselves with the same trace, this one included.
  std::vector<int64_t> ranks;
};

// Whether it may only be the consequence of another rank's fault: such a one never outranks another (docs/sources/reliability.md §5.2).
bool is_victim(const Fault& fault);
// Of those that were seen together. What is no victim, in the order in which it was seen; else the first rank to fail of those that say that they
// failed by themselves, else the first of all.
const Fault& first_cause(const std::vector<Fault>& faults);

struct Verdict {
  FaultClass fault = FaultClass::kUnclear;
  Action action = Action::kRestart;
  ExitCode code = ExitCode::kDoNotRestart;  // of kStop and kEnd
  std::string why;                          // of an action that is not the first for its class
};

Verdict classify(const Fault& fault, const Ledger& history, const Policy& policy, double now_s);

// Exit codes after which starting again unchanged cannot help, so that nobody does: the driver ends the run with them, deploy/slurm.sh and
// deploy/jobset.yaml the job, and docs/reference/exit-codes.md says so (a test compares them).
bool restart_is_futile(ExitCode code);

// Whether the action ends the ranks.
bool restarts_ranks(Action action);

// What crashes of one cause have in common: stack, error or last words without the numbers, addresses and paths that differ between ranks and
// starts. At most 400 bytes; empty where there is nothing to compare.
std::string trace_of(const RankExited& exited);
std::string last_line_of(const RankExited& exited);  // of its log; empty: there is none

}  // namespace longhaul::control
