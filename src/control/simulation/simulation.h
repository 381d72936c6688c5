// A run in one process and virtual time: the driver's core as it is, and nodes, daemons, ranks, messages, checkpoints and faults that are played. A seed
// says everything that happens, so that thousands of schedules are tried in minutes and one that went wrong is played again (in the manner of
// FoundationDB's simulation; docs/sources/reliability.md §8.2).
//
//   const SimulationResult result = simulate({.seed = 7});
//   result.broken                      // invariants that did not hold, each with the time it was seen
//
// Invariants, in every schedule: generations only rise, and no step is committed by one that is not the newest; every step is trained on the same
// samples, whatever happened; nothing that was committed and survives is done again; the journal gives the same state back, at every fault of the
// driver and at the end; no rank lives on after the end; a run that stops says why with a documented code.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "control/policy.h"

namespace longhaul::control {

// What may happen, each with its share of all faults.
enum class Injected {
  kKill,              // SIGKILL of a rank
  kCrash,             // SIGSEGV of a rank
  kOutOfMemory,       // the kernel takes it
  kHang,              // stands in a forward pass
  kStop,              // SIGSTOP: gives no sign
  kDevice,            // exit code 71
  kLostPeer,          // exit code 69 of all, for no reason
  kDaemon,            // the daemon dies, its machine does not
  kNode,              // the machine is gone; it comes back after minutes
  kPartition,         // the daemon is not reached for a while, its ranks go on
  kDriver,            // the driver dies and is typed again
  kSlow,              // a detector says so
  kTwo,               // two ranks at once, on different nodes
  kDuringRecovery,    // a rank dies, and another as soon as the next generation loads
  kSupervisedDaemon,  // the daemon dies, and whoever supervises it starts another at once
  kHeldUp,            // the driver's process stands for a while
  kLostJournal        // the driver dies, and its journal is gone when it is typed again
};
inline constexpr int kInjectedKinds = 17;
std::string_view name_of(Injected kind);

struct SimulationOptions {
  uint64_t seed = 0;
  int64_t nodes = 3, spares = 1, ranks_per_node = 2;
  int64_t steps = 120;
  double step_s = 0.5, start_s = 0.8, load_s = 0.4;  // means; each time is drawn from half to one and a half
  double message_s = 0.002;
  double fault_every_s = 20;      // mean of exponential times; 0: none
  int64_t checkpoint_every = 10;  // on disk; in memory every step
  std::vector<double> shares = std::vector<double>(kInjectedKinds, 1);
  bool deadly_sample = false;
  double most_s = 20000;  // of virtual time: a run that goes on longer is stuck
  bool tells = false;     // fills SimulationResult::story
  Policy policy;
};
// Patience of seconds instead of minutes, so that a schedule of some hundred virtual seconds sees all of it.
SimulationOptions quick_schedule(uint64_t seed);

struct SimulationResult {
  std::vector<std::string> broken;
  std::vector<std::string> story;  // what was done to the run and what the driver said, with times
  bool finished = false;           // all steps
  ExitCode code = ExitCode::kDone;
  std::string text;
  double seconds = 0, productive_s = 0;
  int64_t injected = 0, incidents = 0, restarts = 0, generations = 0, drivers = 0, lost_steps = 0, journal_entries = 0;
  std::map<std::string, int64_t> injected_by_kind, incidents_by_class;
  // Of faults of one rank that came alone: how many there were, and how many incidents name it.
  int64_t single = 0, named = 0;
  std::map<std::string, std::vector<double>> detected_s, recovered_s;  // by class
};

SimulationResult simulate(const SimulationOptions& options);

}  // namespace longhaul::control
