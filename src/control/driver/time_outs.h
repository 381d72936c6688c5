// ProgressTimeOuts: how long a rank may stand at one place before it hangs: a factor times the longest interval that has been seen in that phase, not
// below a floor; from one generation to the next the longest is averaged with what was known before (nvidia-resiliency-ext's rule; docs/sources/reliability.md §4.3, §5.2).
// Phases that come seldom and take long (evaluation, checkpoint) have the limit of a first step until they have been seen; what stands between two
// steps has the floor, however few of them there were.
// Only intervals that ended count: a hang teaches nothing. Work of a rank's other threads (base/threads/background_work.h) has its own times, and until one
// of a kind was seen to end it has what it says itself.
#pragma once

#include <optional>
#include <string>

#include "control/policy.h"
#include "observe/events/event.h"

namespace longhaul::control {

class ProgressTimeOuts {
 public:
  ProgressTimeOuts(const Policy& policy, observe::Metrics known) : policy_(policy), known_(std::move(known)) {}

  // What rank 0 does when all steps are done: a sample, a report.
  static constexpr const char* kBehindLastStep = "idle behind the last step";

  void saw(const std::string& phase, double seconds);  // an interval without progress has ended
  double limit_s(const std::string& phase) const;
  void saw_work(const std::string& work, double seconds) { saw(kWork + work, seconds); }
  double work_limit_s(const std::string& work, double allowed_s) const;
  const observe::Metrics& seen() const { return seen_; }  // of this generation

 private:
  static constexpr const char* kWork = "background ";  // among the phases
  std::optional<double> longest_s(const std::string& phase) const;
  Policy policy_;
  observe::Metrics known_, seen_;
};

}  // namespace longhaul::control
