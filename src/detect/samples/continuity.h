// When a candidate becomes an alert: the same machine must stay the candidate for four minutes of windows, each beginning a second after the last.
// Short gaps are forgiven (strict: none). Without continuity a machine is named that was the candidate in half of the windows of one minute.
#pragma once

#include <cstdint>
#include <vector>

#include "detect/minder/trace.h"

namespace longhaul::detect {

struct Threshold {
  double share = 0.7;      // of the largest possible score, as among sixteen machines (trace.h)
  double distance = 0.05;  // of the candidate's median distance from the others
};

struct Rule {
  Threshold threshold;
  int64_t windows = 240;  // that a run must have from its first to its last
  int64_t gap = 8;        // windows in a row that may lack the machine
  bool continuous = true;
};

struct Alarm {  // a run that became long enough
  int32_t machine = -1;
  int64_t first = 0, last = 0;  // windows
  double score = 0;             // mean share over the windows that had it
};

bool passes(const Candidate& candidate, const Threshold& threshold);

class Continuity {
 public:
  Continuity(const Rule& rule, int followed, int64_t machines) : rule_(rule), followed_(followed), runs_(static_cast<size_t>(machines)) {}
  // The next window's candidates; windows in order. Alarms are told once a run.
  std::vector<Alarm> next(int64_t window, const Candidate* best);
  // Windows that a run of the machine, which still goes on at `window`, reaches back to; 0 without one.
  int64_t length(int32_t machine, int64_t window) const;
  void forget(int32_t machine) { runs_[static_cast<size_t>(machine)] = {}; }  // it was replaced

 private:
  struct Run {
    int64_t first = -1, last = -1, hits = 0;
    double sum = 0;
    bool told = false;
  };
  bool goes_on(const Run& run, int64_t window) const;

  Rule rule_;
  int followed_;
  std::vector<Run> runs_;
};

std::vector<Alarm> alarms_of(const Trace& trace, const Rule& rule, int64_t machines);

// A trace of which only those windows are scored that a decision by this rule can depend on; its alarms are those of the whole. A run that becomes an
// alarm holds at least `rule.windows` windows, and no more than `rule.gap` in a row lack its machine. So blocks of gap + 1 windows are scored first, as close
// as two of them fit into a run: its machine passes in both. What lies beside two blocks in a row with the same machine is scored then. Of machines that
// are all well, or ill for less than two minutes, that is one window in a dozen.
Trace trace_for(const Pull& pull, const Channel& channel, size_t channel_at, int32_t peers, Distance distance, int followed,
                const Rule& rule);

}  // namespace longhaul::detect
