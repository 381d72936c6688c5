// Simulates a run in one process and virtual time: the driver's core is the real one; nodes, daemons, ranks,
// messages, checkpoints and faults are simulated. A seed determines everything that happens, so that
// thousands of schedules are tested in minutes and a failing one can be repeated (in the manner of
// FoundationDB's simulation; docs/sources/reliability.md §8.2).
//
//   const SimulationResult result = simulate({.seed = 7});
//   result.broken                      // invariants that were violated, each with its time
//
// These invariants hold in every schedule: generations only rise, and no step is committed by a generation
// that is not the newest; every step is trained on the same samples, whatever happened; no committed step
// that survives is done again; the journal restores the same state, at every fault of the driver and at the
// end; no rank lives on after the end; a run that stops says why with a documented exit code.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "control/policy.h"

namespace longhaul::control {

// Injected: the kinds of faults; SimulationOptions::shares gives the share of each in all faults.
enum class Injected {
  kKill,              // SIGKILL of a rank
  kCrash,             // SIGSEGV of a rank
  kOutOfMemory,       // killed by the kernel for lack of memory
  kHang,              // it stands still in a forward pass
  kStop,              // SIGSTOP: no heartbeats either
  kDevice,            // exit code 71
  kLostPeer,          // exit code 69 of all ranks, without a reason
  kDaemon,            // the daemon dies, its machine does not
  kNode,              // the machine is gone; it comes back after some minutes
  kPartition,         // the daemon cannot be reached for a while, its ranks go on
  kDriver,            // the driver dies and is started again
  kSlow,              // a detector reports a slow rank
  kTwo,               // two ranks on different nodes die at the same time
  kDuringRecovery,    // a rank dies, and another one as soon as the next generation loads
  kSupervisedDaemon,  // the daemon dies, and its supervisor starts another one immediately
  kHeldUp,            // the driver's process stands still for a while
  kLostJournal        // the driver dies, and its journal is gone when it is started again
};
inline constexpr int kInjectedKinds = 17;
std::string_view name_of(Injected kind);

struct SimulationOptions {
  uint64_t seed = 0;
  int64_t nodes = 3, spares = 1, ranks_per_node = 2;
  int64_t steps = 120;
  // Means; each time is drawn between half and one and a half of its mean.
  double step_s = 0.5, start_s = 0.8, load_s = 0.4;
  double message_s = 0.002;
  double fault_every_s = 20;      // mean of an exponential distribution; 0: no faults
  int64_t checkpoint_every = 10;  // on disk; in memory every step
  std::vector<double> shares = std::vector<double>(kInjectedKinds, 1);
  bool deadly_sample = false;
  double most_s = 20000;  // limit of virtual time: a run that lasts longer is stuck
  bool tells = false;     // fill SimulationResult::story
  Policy policy;
};
// Options with time-outs of seconds instead of minutes, so that some hundred virtual seconds exercise all of
// them.
SimulationOptions quick_schedule(uint64_t seed);

struct SimulationResult {
  std::vector<std::string> broken;
  std::vector<std::string> story;  // injected faults and the driver's messages, with their times
  bool finished = false;           // all steps were done
  ExitCode code = ExitCode::kDone;
  std::string text;
  double seconds = 0, productive_s = 0;
  int64_t injected = 0, incidents = 0, restarts = 0, generations = 0, drivers = 0, lost_steps = 0,
          journal_entries = 0;
  std::map<std::string, int64_t> injected_by_kind, incidents_by_class;
  // For faults of one rank that came alone: `single` is their number, `named` the number of incidents that
  // name the rank.
  int64_t single = 0, named = 0;
  std::map<std::string, std::vector<double>> detected_s, recovered_s;  // by fault class
};

SimulationResult simulate(const SimulationOptions& options);

}  // namespace longhaul::control
