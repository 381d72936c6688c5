// When an alarm of one metric is not enough. A healthy machine is off for minutes in one metric now and then; among a thousand machines one or another
// is so at any time, and continuity cannot tell it from a faulty one. Faults mostly show in several metrics at once. So in classes of more than
// `agreement_from` machines an alarm needs a second metric in which the same machine is a candidate, and has been for half as long; or a run of twice
// the length. Ours. Whoever compares all metrics as one (CON, INT, joint MD) or goes without continuity is asked for neither.
#pragma once

#include <vector>

#include "detect/minder/detector.h"

namespace longhaul::detect {

bool needs_agreement(const DetectOptions& options, int64_t machines, size_t channels, const Rule& rule);
Rule alone_rule(const Rule& rule);           // what a metric alone must hold: twice as long
int64_t agreeing_windows(const Rule& rule);  // how long the run of another metric must be: half as long

// Where the traces of a decision come from: scored as far as the decision asks (a call), or whole and kept (the search for thresholds). null: the pull
// lacks a metric of the channel. What is returned stays until the next question to the same method.
class TraceSource {
 public:
  virtual ~TraceSource() = default;
  // All windows that an alarm by this rule depends on.
  virtual const Trace* deciding(size_t channel, int32_t peers, const Rule& rule) = 0;
  // The last `count` windows that end by second `end` of the pull.
  virtual const Trace* ending_in(size_t channel, int32_t peers, int64_t end, int64_t count) = 0;
};

// The alarms of `trace` that are enough, in order of time. rules: a channel each. `about`: machines and classes; its samples are not looked at.
std::vector<Alarm> agreed_alarms(const Pull& about, const Trace& trace, const std::vector<Rule>& rules, const DetectOptions& options,
                                 TraceSource& source);

}  // namespace longhaul::detect
