// ProgressTimeOuts: how long a rank may stand at one place before it hangs: a factor times the longest interval that has been seen in that phase, not
// below a floor; from one generation to the next the longest is averaged with what was known before (nvidia-resiliency-ext's rule; specs: §4.3, §5.2).
// Phases that come seldom and take long (evaluation, checkpoint) have the limit of a first step until they have been seen.
// Only intervals that ended count: a hang teaches nothing.
#pragma once

#include <string>

#include "control/policy.h"
#include "observe/event.h"

namespace longhaul::control {

class ProgressTimeOuts {
 public:
  ProgressTimeOuts(const Policy& policy, observe::Metrics known) : policy_(policy), known_(std::move(known)) {}

  void saw(const std::string& phase, double seconds);  // an interval without progress has ended
  double limit_s(const std::string& phase) const;
  const observe::Metrics& seen() const { return seen_; }  // of this generation

 private:
  Policy policy_;
  observe::Metrics known_, seen_;
};

}  // namespace longhaul::control
