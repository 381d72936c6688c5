// ProgressTimeOuts: how long a rank may stand at one place before it counts as hanging. The time-out is a
// factor times the longest interval that has been seen in that phase, and at least a floor; from one
// generation to the next the longest interval is averaged with the earlier value (nvidia-resiliency-ext's
// rule; docs/sources/reliability.md §4.3, §5.2). Phases that are rare and long (evaluation, checkpoint) have
// the limit of a first step until they have been seen; the time between two steps has the floor, even if few
// steps were seen. A phase that the task names (observe/trace/task_phase.h) has, until it was seen to end or
// to progress, the limit that the task states, or else that of a first step; afterwards a factor times the
// longest interval without progress, and never less than the task states. Only intervals that ended count, so
// that a hang does not raise the limit. Work of a rank's background threads (base/threads/background_work.h)
// has times of its own; until one of a kind was seen to end, the limit is the one that the work itself
// states.
#pragma once

#include <optional>
#include <string>

#include "control/policy.h"
#include "observe/events/event.h"

namespace longhaul::control {

class ProgressTimeOuts {
 public:
  ProgressTimeOuts(const Policy& policy, observe::Metrics known)
      : policy_(policy), known_(std::move(known)) {}

  // The phase of rank 0 after the last step: a sample, a report.
  static constexpr const char* kBehindLastStep = "idle behind the last step";

  void saw(const std::string& phase, double seconds);  // an interval without progress has ended
  double limit_s(const std::string& phase) const;
  void saw_work(const std::string& work, double seconds) { saw(kWork + work, seconds); }
  double work_limit_s(const std::string& work, double allowed_s) const;
  void saw_task(const std::string& phase, double seconds) { saw(kTask + phase, seconds); }
  double task_limit_s(const std::string& phase, double allowed_s) const;
  const observe::Metrics& seen() const { return seen_; }  // of this generation

 private:
  static constexpr const char* kWork = "background ";  // prefix of such work among the phases
  static constexpr const char* kTask = "task ";        // prefix of phases that the task names
  std::optional<double> longest_s(const std::string& phase) const;
  Policy policy_;
  observe::Metrics known_, seen_;
};

}  // namespace longhaul::control
