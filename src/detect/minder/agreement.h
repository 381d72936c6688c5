// The cases in which an alarm of one metric is not enough. A healthy machine deviates for minutes in one
// metric now and then; among a thousand machines one does so at any time, and continuity cannot tell it from
// a faulty one. Faults mostly show in several metrics at once. Therefore in classes of more than
// `agreement_from` machines an alarm needs a second metric in which the same machine has been a candidate for
// half as long, or a run of twice the length. This rule is ours, not the paper's. It does not apply to
// variants that compare all metrics as one (CON, INT, joint MD), or without continuity.
#pragma once

#include <vector>

#include "detect/minder/detector.h"

namespace longhaul::detect {

bool needs_agreement(const DetectOptions& options, int64_t machines, size_t channels, const Rule& rule);
Rule alone_rule(const Rule& rule);  // the rule for one metric without agreement: twice as long
// The length of the run that another metric must have: half as long.
int64_t agreeing_windows(const Rule& rule);

// TraceSource: the traces on which a decision is based, either scored only as far as the decision needs (a
// call), or complete and kept (the search for thresholds). The functions return null if the pull lacks a
// metric of the channel. A result is valid until the next question to the same function.
class TraceSource {
 public:
  virtual ~TraceSource() = default;
  // All windows on which an alarm by this rule depends.
  virtual const Trace* deciding(size_t channel, int32_t peers, const Rule& rule) = 0;
  // The last `count` windows that end by second `end` of the pull.
  virtual const Trace* ending_in(size_t channel, int32_t peers, int64_t end, int64_t count) = 0;
};

// Returns the alarms of `trace` that are sufficient, in order of time. rules: one per channel. `about`: the
// machines and classes; its samples are not used.
std::vector<Alarm> agreed_alarms(const Pull& about, const Trace& trace, const std::vector<Rule>& rules,
                                 const DetectOptions& options, TraceSource& source);

}  // namespace longhaul::detect
