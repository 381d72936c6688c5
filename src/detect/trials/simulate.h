// Simulates the metrics of a training cluster, with or without a faulty machine, so that detectors can be
// measured without production data. All machines follow one training step (a level and a sinusoid of the
// step's period) with sensor noise, offsets, jitter, missing samples and checkpoints; a fault then moves some
// metrics of one machine and slows all machines. A case is a pure function of its specification and seed. The
// magnitudes are choices (docs/sources/reliability.md §8.3), made from descriptions of faults, not from what
// any detector finds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "detect/samples/samples.h"
#include "detect/trials/fault_types.h"

namespace longhaul::detect {

// Structure: other effects in a cluster; none of them is a fault.
struct Structure {
  // First and last pipeline stage have other levels; they are peer classes of their own.
  bool stage_levels = false;
  bool expert_drift = false;   // loads of experts drift slowly
  bool evaluations = false;    // all machines evaluate for a while
  bool stragglers = false;     // one machine is slightly but steadily slower
  bool noisy_machine = false;  // the sensors of one machine are noisier
  bool late_machine = false;   // one machine's data begins late
  bool data_stops = false;     // an unreachable machine sends nothing
};

struct CaseSpec {
  int64_t machines = 16;
  uint64_t seed = 0;
  std::string fault = "any";  // "any": drawn by share; "none"; or the name of a type
  bool evaluation_mix = false;
  bool glitches = false;  // regime B: two samples in a hundred are wrong
  bool shifted = false;   // periods, noise and severities outside the range of usual cases
  int64_t seconds = 900;
  int64_t episodes = 1;  // number of successive faults, each in `seconds` of its own
  Structure structure;
  std::vector<size_t> metrics = metric_choice("used");
};

struct Fault {
  std::string type;
  int32_t machine = -1;
  std::vector<int32_t> group;  // other machines to which it spread
  int64_t onset_s = 0, end_s = 0;
  double severity = 0;
  std::vector<size_t> metrics;  // metrics in which it shows
};

struct Case {
  CaseSpec spec;
  std::vector<Fault> faults;  // in order of time; none: a normal case
  Pull pull;
};

// Whether a detector with this continuity can find the fault, apart from chance before or after it: it lasts
// long enough and shows in an examined metric.
bool detectable(const Fault& fault, const std::vector<size_t>& looked_at, int64_t continuity_s);
// The shortest fault that can explain 240 consecutive windows of eight seconds, a second apart: a fault of d
// seconds touches d + 7 windows, the first and the last of them with one second only.
inline constexpr int64_t kContinuitySpan = 240 - (8 - 1);

Case simulate(const CaseSpec& spec);

// 8, 16, 32 or 64 machines with probabilities .3, .3, .25, .15; with `large` also 128, 512, 1,024 and 1,500.
int64_t drawn_machines(uint64_t seed, bool large);

}  // namespace longhaul::detect
