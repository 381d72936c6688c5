// TaskPhase: a part of the work that a task names itself, such as a rollout or the judgement of answers. The
// board of the rank shows it, so the driver of a supervised run gives it a time limit of its own, and its
// seconds are reported with the step, or with the evaluation, as the metric "<name>_seconds".
//
//   observe::TaskPhase phase(*ranks.spans(), "rollout", /*allowed_s=*/900);
//   for (int64_t i = 0; i < prompts; ++i) { …; phase.progress(i + 1, prompts); }
//
// A name has lower-case letters, digits and "_", and at most 31 of them. allowed_s says how long the phase
// may stand without progress(), without a call of a communicator and without its end; 0: the driver finds a
// limit (control/driver/time_outs.h). A phase may stand inside another one, whose seconds then include it.
// Phases are begun and ended by the computing thread, in the reverse order; progress() may be called by any.
#pragma once

#include <mutex>
#include <string_view>

#include "base/call_site.h"
#include "observe/trace/spans.h"

namespace longhaul::observe {

class TaskPhase {
 public:
  TaskPhase(SpanRecorder& recorder, std::string_view name, double allowed_s = 0,
            CallSite at = CallSite::here());
  ~TaskPhase();
  TaskPhase(const TaskPhase&) = delete;
  TaskPhase& operator=(const TaskPhase&) = delete;

  void progress(int64_t done, int64_t whole = 0);  // whole: 0 if it is not known

 private:
  SpanRecorder& recorder_;
  std::mutex mutex_;  // protects state_
  TaskPhaseState state_, outer_;
  RankPhase before_;
  int64_t begin_ns_;
};

}  // namespace longhaul::observe
