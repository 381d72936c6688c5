// TaskPhaseState: the phase that a task has named and stands in (observe/trace/task_phase.h), as boards, the
// messages of daemons and status.json carry it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>

#include "observe/events/event.h"

namespace longhaul::observe {

struct TaskPhaseState {
  std::string name;      // empty: none
  double allowed_s = 0;  // how long it may stand without progress; 0: the task has not said it
  // Progress, in units of the task; whole: 0 if it is not known.
  int64_t done = 0, whole = 0;
  bool operator==(const TaskPhaseState&) const = default;
  static constexpr auto fields();
};

constexpr auto TaskPhaseState::fields() {
  using T = TaskPhaseState;
  return std::tuple{Field{"name", &T::name}, Field{"allowed_s", &T::allowed_s}, Field{"done", &T::done},
                    Field{"whole", &T::whole}};
}

// For people: "rollout, 12 of 64" in a phase of the task, else `phase` (RankPhase by name).
std::string phase_text(std::string_view phase, const TaskPhaseState& task);

}  // namespace longhaul::observe
