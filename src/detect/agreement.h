// When an alarm of one metric is not enough. A healthy machine is off for minutes in one metric now and then; among a thousand machines one or another
// is so at any time, and continuity cannot tell it from a faulty one. Faults mostly show in several metrics at once. So in classes of more than
// `agreement_from` machines an alarm needs a second metric in which the same machine is a candidate, and has been for half as long; or a run of twice
// the length. Ours. Whoever compares all metrics as one (CON, INT, joint MD) or goes without continuity is asked for neither.
#pragma once

#include <vector>

#include "detect/detector.h"

namespace longhaul::detect {

bool needs_agreement(const DetectOptions& options, int64_t machines, size_t channels, const Rule& rule);
Rule alone_rule(const Rule& rule);           // what a metric alone must hold: twice as long
int64_t agreeing_windows(const Rule& rule);  // how long the run of another metric must be: half as long

// The alarms of `trace`, one of `channels`, that are enough, in order of time. rules: a channel each. Of other channels only the windows that an answer
// depends on are scored.
std::vector<Alarm> agreed_alarms(const Pull& pull, const std::vector<Channel>& channels, const Trace& trace, const std::vector<Rule>& rules,
                                 const DetectOptions& options);

}  // namespace longhaul::detect
