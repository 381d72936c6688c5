#include "observe/board/task_phase_state.h"

#include <fmt/format.h>

namespace longhaul::observe {

std::string phase_text(std::string_view phase, const TaskPhaseState& task) {
  if (phase != "task" || task.name.empty()) return std::string(phase);
  if (task.whole > 0) return fmt::format("{}, {} of {}", task.name, task.done, task.whole);
  return task.done > 0 ? fmt::format("{}, {} done", task.name, task.done) : task.name;
}

}  // namespace longhaul::observe
