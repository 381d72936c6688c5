// The effective training rate of a run that fails now and then: productive time over all time, where finding out, diagnosing, starting again, saving and
// doing steps again are not productive. Two ways: formulas (arXiv 2410.21680; Daly 2006; GEMINI, SOSP'23) and a simulation of memoryless faults of
// several kinds, each with its own times, which may also strike while the run recovers. Seconds.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace longhaul::plan {

// E ≈ (1 − (u + Δ/2) / M) / (1 + w/Δ): M mean time to failure, u restart, Δ interval, w how long one checkpoint blocks. Below 0: 0.
double expected_effective_rate(double mean_to_failure_s, double interval_s, double checkpoint_s, double restart_s);
// Daly: wall time of `work_s` of training: T_s (M/τ) e^{R/M} (e^{(τ+C)/M} − 1).
double wall_time_s(double work_s, double mean_to_failure_s, double interval_s, double checkpoint_s, double restart_s);
// Whether state in `copies` memories of groups of as many machines survives when `lost` of all machines fail at once: exact for lost < 2 · copies,
// else a lower bound.
double replicas_survive(int64_t machines, int64_t copies, int64_t lost);

struct FaultKind {
  std::string name;
  double share = 1;  // of all faults; they are made to sum to 1
  double detect_s = 1, diagnose_s = 1, restart_s = 60;
};

struct FaultyRun {
  double days = 30;
  double mean_to_failure_s = 3 * 3600;
  double step_s = 10;
  double interval_s = 10;   // between checkpoints that survive a fault
  double checkpoint_s = 0;  // one blocks training so long
  double durable_s = 0;     // from a checkpoint to its being safe
  std::vector<FaultKind> kinds;
  uint64_t seed = 0;
};

struct EffectiveRate {
  double rate = 0;  // productive over all
  int64_t faults = 0;
  std::map<std::string, double> lost_s;  // "detect", "diagnose", "restart", "again", "checkpoint"
};

EffectiveRate simulate_rate(const FaultyRun& run);

// Runs to compare: this program's with figures given, and published ones.
struct RateScenario {
  std::string name, source;
  FaultyRun run;
  double published = 0;  // 0: not known
};
struct MeasuredTimes {      // of this program, from `bench faults` or by hand
  double detect_s = 0.3;    // a process that died
  double hang_s = 61;       // a hang: its time-out and a second
  double diagnose_s = 1.1;  // last call and verdict
  double restart_s = 3.5;   // until the next step
  double save_s = 0;        // a checkpoint in memory blocks a step so long
};
std::vector<RateScenario> rate_scenarios(const MeasuredTimes& measured);

}  // namespace longhaul::plan
