// Metrics of a training cluster, simulated, with or without a faulty machine: for measuring detectors where no production data may be shown. All
// machines follow one step of training (level and a sinusoid of the step's period) with sensor noise, offsets, jitters, missing samples and
// checkpoints; a fault then moves some metrics of one machine and slows all. A case is a pure function of its specification and seed. Magnitudes are
// choices (docs/sources/reliability.md §8.3), made from descriptions of faults, not from what any detector finds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "detect/samples/samples.h"
#include "detect/trials/fault_types.h"

namespace longhaul::detect {

// What else may happen in a cluster; none of it is a fault.
struct Structure {
  bool stage_levels = false;   // first and last pipeline stage at other levels; they are peer classes of their own
  bool expert_drift = false;   // loads of experts drift slowly
  bool evaluations = false;    // all machines do something else for a while
  bool stragglers = false;     // one machine is slower, steadily and a little
  bool noisy_machine = false;  // the sensors of one machine are worse
  bool late_machine = false;   // one machine's data begins late
  bool data_stops = false;     // an unreachable machine sends nothing
};

struct CaseSpec {
  int64_t machines = 16;
  uint64_t seed = 0;
  std::string fault = "any";  // "any": by share; "none"; or a type's name
  bool evaluation_mix = false;
  bool glitches = false;  // regime B: two samples in a hundred are wrong
  bool shifted = false;   // periods, noise and severities that the usual cases never have
  int64_t seconds = 900;
  int64_t episodes = 1;  // faults one after the other, each in `seconds` of its own
  Structure structure;
  std::vector<size_t> metrics = metric_choice("used");
};

struct Fault {
  std::string type;
  int32_t machine = -1;
  std::vector<int32_t> group;  // others that it spread to
  int64_t onset_s = 0, end_s = 0;
  double severity = 0;
  std::vector<size_t> metrics;  // that show it
};

struct Case {
  CaseSpec spec;
  std::vector<Fault> faults;  // in order of time; none: a normal case
  Pull pull;
};

// Whether a detector with this continuity can find it, but for what happens by chance before or behind it: it lasts that long and shows in a metric
// that is looked at.
bool detectable(const Fault& fault, const std::vector<size_t>& looked_at, int64_t continuity_s);
// The shortest fault that can be the reason of 240 windows of eight seconds in a row, a second apart: one of d seconds lies in d + 7 of them, if only
// with one of its seconds in the first and in the last.
inline constexpr int64_t kContinuitySpan = 240 - (8 - 1);

Case simulate(const CaseSpec& spec);

// 8, 16, 32 or 64 machines with probabilities .3, .3, .25, .15; `large` draws from 128, 512, 1,024 and 1,500 as well.
int64_t drawn_machines(uint64_t seed, bool large);

}  // namespace longhaul::detect
