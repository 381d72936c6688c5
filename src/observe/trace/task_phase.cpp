#include "observe/trace/task_phase.h"

#include <algorithm>

#include "base/error.h"

namespace longhaul::observe {
namespace {

bool is_phase_name(std::string_view name) {
  constexpr size_t kMost = 31;  // as many as the board keeps
  return !name.empty() && name.size() <= kMost && std::ranges::all_of(name, [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9') || letter == '_';
  });
}

}  // namespace

TaskPhase::TaskPhase(SpanRecorder& recorder, std::string_view name, double allowed_s, CallSite at)
    : recorder_(recorder),
      state_{.name = std::string(name), .allowed_s = allowed_s},
      begin_ns_(monotonic_ns()) {
  LONGHAUL_ASSERT(is_phase_name(name), "'{}' is no name of a phase: at most 31 of a-z, 0-9 and _", name);
  outer_ = recorder_.begin_task_phase(state_);
  before_ = recorder_.board().enter(RankPhase::kTask, at);
}

TaskPhase::~TaskPhase() {
  recorder_.end_task_phase(state_.name, static_cast<double>(monotonic_ns() - begin_ns_) * 1e-9, outer_);
  recorder_.board().enter(before_);
}

void TaskPhase::progress(int64_t done, int64_t whole) {
  const std::lock_guard lock(mutex_);
  state_.done = done;
  state_.whole = whole;
  recorder_.task_phase_progressed(state_);
}

}  // namespace longhaul::observe
