// Chooses thresholds on labelled cases. Traces are computed once, and every pair of thresholds is tried on
// them: first one pair for all channels, then one channel at a time, each with the decision of a call
// (agreement.h). The pair with the best F1 on these cases is kept; its quality must be measured on other
// cases.
#pragma once

#include <span>

#include "detect/trials/score.h"

namespace longhaul::detect {

struct LabelledCase {
  Pull pull;
  std::vector<Fault> faults;  // machines are given by their index in the pull
};

// CaseTraces: what a variant sees in a case, which is all that decisions need.
struct CaseTraces {
  std::vector<Trace> traces;  // channel by channel, and the classes within each
  Pull about;                 // the pull without samples: machines and their classes, the first second
  std::vector<Fault> faults;
  std::vector<Alert> silent;
};
CaseTraces traces_of(const LabelledCase& from, const std::vector<Channel>& channels,
                     const DetectOptions& options);

// One per channel.
std::vector<Rule> rules_of(const std::vector<Threshold>& thresholds, const DetectOptions& options);

struct Tuned {
  std::vector<Threshold> thresholds;  // one per channel
  double f1 = 0;
};
Tuned tune(const std::vector<CaseTraces>& cases, const std::vector<Channel>& channels,
           const DetectOptions& options);

// Tunes every variant on these cases and writes the thresholds into the models. Prints its progress.
void tune_models(Models& models, const std::vector<LabelledCase>& cases, std::span<const Variant> variants);

}  // namespace longhaul::detect
