#include "observe/trace/spans.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace longhaul::observe {
namespace {

// The recorder for whose step the thread computes; null: none.
thread_local const SpanRecorder* computing = nullptr;

}  // namespace

std::string_view name_of(SpanKind kind) {
  constexpr std::string_view kNames[kSpanKinds] = {
      "forward",   "backward", "backward input", "backward weight", "gradients", "norm",
      "optimizer", "values",   "numbers",        "evaluation",      "data",      "checkpoint copy"};
  return kNames[static_cast<size_t>(kind)];
}

RankPhase phase_of(SpanKind kind) {
  switch (kind) {
    case SpanKind::kForward:
      return RankPhase::kForward;
    case SpanKind::kBackward:
    case SpanKind::kBackwardInput:
    case SpanKind::kBackwardWeight:
      return RankPhase::kBackward;
    case SpanKind::kGradients:
    case SpanKind::kNumbers:
      return RankPhase::kCommunication;
    case SpanKind::kNorm:
    case SpanKind::kOptimizer:
    case SpanKind::kValues:
      return RankPhase::kOptimizer;
    case SpanKind::kEvaluation:
      return RankPhase::kEvaluation;
    case SpanKind::kData:
      return RankPhase::kData;
    case SpanKind::kCheckpoint:
      break;
  }
  return RankPhase::kCheckpoint;
}

bool is_of_host(SpanKind kind) {
  return kind == SpanKind::kData || kind == SpanKind::kCheckpoint || kind == SpanKind::kEvaluation;
}

bool SpanRecorder::computes_here() const { return computing == this; }

ComputesFor::ComputesFor(const SpanRecorder& recorder) : before_(std::exchange(computing, &recorder)) {}
ComputesFor::~ComputesFor() { computing = before_; }

TaskPhaseState SpanRecorder::begin_task_phase(const TaskPhaseState& phase) {
  const std::lock_guard lock(mutex_);
  board_->show_task_phase(phase);
  return std::exchange(task_phase_, phase);
}

void SpanRecorder::task_phase_progressed(const TaskPhaseState& phase) {
  const std::lock_guard lock(mutex_);
  // The phase around the innermost one may progress too; the board goes on showing the innermost.
  if (phase.name == task_phase_.name) task_phase_ = phase;
  board_->show_task_phase(task_phase_);
}

void SpanRecorder::end_task_phase(const std::string& name, double seconds, const TaskPhaseState& outer) {
  const std::lock_guard lock(mutex_);
  task_seconds_[name] += seconds;
  if (outer.name.empty()) seconds_in_task_phases_ += seconds;
  task_phase_ = outer;
  board_->show_task_phase(outer);
}

std::map<std::string, double> SpanRecorder::take_task_seconds() {
  const std::lock_guard lock(mutex_);
  return std::exchange(task_seconds_, {});
}

double SpanRecorder::seconds_in_task_phases() const {
  const std::lock_guard lock(mutex_);
  return seconds_in_task_phases_;
}

void SpanRecorder::count_on(std::unique_ptr<DeviceMarks> marks) {
  const std::lock_guard lock(mutex_);
  marks_ = std::move(marks);
  marked_.clear();
}

void SpanRecorder::restart_marks() {
  const std::lock_guard lock(mutex_);
  if (marks_ == nullptr) return;
  marked_.clear();
  marks_begin_ns_ = monotonic_ns();
  marks_->restart();
}

std::optional<size_t> SpanRecorder::mark(SpanKind kind) {
  if (marks_ == nullptr || is_of_host(kind)) return std::nullopt;
  const std::lock_guard lock(mutex_);
  return marks_->mark();
}

// A device that has failed says so where it is used; its times are then the host's.
std::vector<double> SpanRecorder::times_of_marks() {
  try {
    return marks_->seconds();
  } catch (const std::exception&) {
    return {};
  }
}

std::optional<PhaseSeconds> SpanRecorder::device_seconds() {
  const std::lock_guard lock(mutex_);
  if (marks_ == nullptr) return std::nullopt;
  const std::vector<double> at = times_of_marks();
  if (at.empty()) return std::nullopt;
  PhaseSeconds seconds{};
  for (const Marked& each : marked_)
    seconds[static_cast<size_t>(phase_of(each.kind))] += at[each.end] - at[each.begin];
  return seconds;
}

void SpanRecorder::start(int64_t step) {
  const std::lock_guard lock(mutex_);
  LONGHAUL_ASSERT(!on(), "step {} is still recorded", trace_.step);
  trace_ = {.step = step, .begin_ns = monotonic_ns()};
  recorded_ = true;
  computing = this;
  on_.store(true, std::memory_order_relaxed);
}

StepTrace SpanRecorder::stop() {
  const std::lock_guard lock(mutex_);
  LONGHAUL_ASSERT(on() && computing == this, "no step is recorded by this thread");
  on_.store(false, std::memory_order_relaxed);
  computing = nullptr;
  const std::vector<double> at = marks_ != nullptr ? times_of_marks() : std::vector<double>();
  for (const Marked& each : marked_) {
    if (!each.place || at.empty()) continue;
    Span& span = trace_.spans[*each.place];
    span.begin_ns = marks_begin_ns_ + static_cast<int64_t>(at[each.begin] * 1e9);
    span.end_ns = marks_begin_ns_ + static_cast<int64_t>(at[each.end] * 1e9);
  }
  for (Marked& each : marked_) each.place.reset();
  trace_.end_ns = monotonic_ns();
  trace_.beside = std::exchange(beside_, {});
  return std::exchange(trace_, {});
}

std::optional<size_t> SpanRecorder::add(const Span& span) {
  const std::lock_guard lock(mutex_);
  if (!on()) return std::nullopt;
  if (trace_.spans.size() == most_) {
    ++trace_.dropped;
    return std::nullopt;
  }
  trace_.spans.push_back(span);
  return trace_.spans.size() - 1;
}

void SpanRecorder::add_marks(SpanKind kind, size_t begin, size_t end, std::optional<size_t> place) {
  const std::lock_guard lock(mutex_);
  marked_.push_back({kind, begin, end, place});
}

void SpanRecorder::add(CallSpan call) {
  const std::lock_guard lock(mutex_);
  if (!on()) return;
  // The part in this step of a call that was started in the step before, or by another thread.
  call.begin_ns = std::max(call.begin_ns, trace_.begin_ns);
  call.end_ns = std::max(call.end_ns, call.begin_ns);
  if (trace_.calls.size() < most_)
    trace_.calls.push_back(std::move(call));
  else
    ++trace_.dropped;
}

void SpanRecorder::add(BesideSpan beside) {
  constexpr size_t kMost = 256;
  const std::lock_guard lock(mutex_);
  if (recorded_ && beside_.size() < kMost) beside_.push_back(std::move(beside));
}

}  // namespace longhaul::observe
