// Choosing thresholds on cases whose truth is known. Traces are computed once; every pair of thresholds is then tried on them: first one pair for all
// channels, then a channel at a time, each by the decision of a call (agreement.h). What is best by F1 on these cases is kept; how good it is must be measured on other cases.
#pragma once

#include <span>

#include "detect/trials/score.h"

namespace longhaul::detect {

struct LabelledCase {
  Pull pull;
  std::vector<Fault> faults;  // machines by their index in the pull
};

// What a variant sees in a case, all that decisions need.
struct CaseTraces {
  std::vector<Trace> traces;  // channel by channel, classes within
  Pull about;                 // whose samples are left out: machines and their classes, the first second
  std::vector<Fault> faults;
  std::vector<Alert> silent;
};
CaseTraces traces_of(const LabelledCase& from, const std::vector<Channel>& channels, const DetectOptions& options);

std::vector<Rule> rules_of(const std::vector<Threshold>& thresholds, const DetectOptions& options);  // a channel each

struct Tuned {
  std::vector<Threshold> thresholds;  // a channel each
  double f1 = 0;
};
Tuned tune(const std::vector<CaseTraces>& cases, const std::vector<Channel>& channels, const DetectOptions& options);

// Tunes every variant on these cases and writes the thresholds into the models. Shows its progress.
void tune_models(Models& models, const std::vector<LabelledCase>& cases, std::span<const Variant> variants);

}  // namespace longhaul::detect
