// Continuity: when a candidate becomes an alert. The same machine must stay the candidate for four minutes of
// windows, each beginning a second after the last. Short gaps are allowed (strict: none). Without continuity,
// a machine that was the candidate in half of the windows of one minute is named.
#pragma once

#include <cstdint>
#include <vector>

#include "detect/minder/trace.h"

namespace longhaul::detect {

struct Threshold {
  double share = 0.7;      // share of the largest possible score, as among sixteen machines (trace.h)
  double distance = 0.05;  // of the candidate's median distance from the others
};

struct Rule {
  Threshold threshold;
  int64_t windows = 240;  // number of windows from the first to the last of a run
  int64_t gap = 8;        // number of consecutive windows that may lack the machine
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
  Continuity(const Rule& rule, int followed, int64_t machines)
      : rule_(rule), followed_(followed), runs_(static_cast<size_t>(machines)) {}
  // Takes the candidates of the next window, in order. Each run raises one alarm.
  std::vector<Alarm> next(int64_t window, const Candidate* best);
  // Number of windows that the machine's run reaches back from `window`, if it still goes on there; otherwise
  // 0.
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

// Returns a trace in which only those windows are scored on which a decision by this rule can depend; its
// alarms equal those of the complete trace. A run that becomes an alarm spans at least `rule.windows`
// windows, and at most `rule.gap` consecutive ones lack its machine. Therefore blocks of gap + 1 windows are
// scored first, so close that two of them fit into a run: its machine passes in both. The windows between two
// successive blocks with the same machine are scored then. If all machines are healthy, or deviate for less
// than two minutes, one window in a dozen is scored.
Trace trace_for(const Pull& pull, const Channel& channel, size_t channel_at, int32_t peers, Distance distance,
                int followed, const Rule& rule);

}  // namespace longhaul::detect
