// The effective training rate of a run with failures: productive time over total time. Detection, diagnosis,
// restart, saving and repeated steps are not productive. There are two methods: formulas (arXiv 2410.21680;
// Daly 2006; GEMINI, SOSP'23) and a simulation of memoryless faults of several kinds, each with its own
// times, which may also strike during recovery. In seconds.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace longhaul::plan {

// E ≈ (1 − (u + Δ/2) / M) / (1 + w/Δ): M mean time to failure, u restart time, Δ interval, w time for which
// one checkpoint blocks. Negative results become 0.
double expected_effective_rate(double mean_to_failure_s, double interval_s, double checkpoint_s,
                               double restart_s);
// Daly's wall time for `work_s` of training: T_s (M/τ) e^{R/M} (e^{(τ+C)/M} − 1).
double wall_time_s(double work_s, double mean_to_failure_s, double interval_s, double checkpoint_s,
                   double restart_s);
// The probability that state in `copies` memories, in groups of as many machines, survives when `lost` of all
// machines fail at once: exact for lost < 2 · copies, else a lower bound.
double replicas_survive(int64_t machines, int64_t copies, int64_t lost);

struct FaultKind {
  std::string name;
  double share = 1;  // of all faults; the shares are scaled to sum to 1
  double detect_s = 1, diagnose_s = 1, restart_s = 60;
};

struct FaultyRun {
  double days = 30;
  double mean_to_failure_s = 3 * 3600;
  double step_s = 10;
  double interval_s = 10;   // between checkpoints that survive a fault
  double checkpoint_s = 0;  // time for which one blocks training
  double durable_s = 0;     // from a checkpoint until it is safe
  std::vector<FaultKind> kinds;
  uint64_t seed = 0;
};

struct EffectiveRate {
  double rate = 0;  // productive time / total time
  int64_t faults = 0;
  std::map<std::string, double> lost_s;  // "detect", "diagnose", "restart", "again", "checkpoint"
};

EffectiveRate simulate_rate(const FaultyRun& run);

// RateScenario: a run to compare: this program's with given times, or a published one.
struct RateScenario {
  std::string name, source;
  FaultyRun run;
  double published = 0;  // 0: unknown
};
struct MeasuredTimes {      // times of this program, from `bench faults` or by hand
  double detect_s = 0.3;    // for a process that died
  double hang_s = 61;       // for a hang: its time-out and a second
  double diagnose_s = 1.1;  // last call and verdict
  double restart_s = 3.5;   // until the next step
  double save_s = 0;        // how long a checkpoint in memory blocks a step
};
std::vector<RateScenario> rate_scenarios(const MeasuredTimes& measured);

}  // namespace longhaul::plan
