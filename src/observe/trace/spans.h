// SpanRecorder: what a rank did at which time, for timelines and for the sum of its time by activity. It is
// off until a step is to be recorded; then every scope reads the clock twice, and every call of a
// communicator adds one entry. While it is off, a scope costs one branch and allocates nothing.
//
//   recorder.start(step);                                               // called by the computing thread
//   { const SpanScope scope(recorder, SpanKind::kForward, chunk, micro_batch); … }
//   const StepTrace trace = recorder.stop();
//
// With a board (rank_board.h) each scope is also a phase of the rank, whether it is recorded or not. Times
// are monotonic_ns(). Where a device computes, count_on() its marks: a scope of computing then lasts from
// when the device came to its begin until it came to its end. At most `most` spans and `most` calls are kept
// per step; the others are counted. Calls come from comm::CallLog. Thread-safe; start() and stop() are
// called by the computing thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/call_site.h"
#include "base/clock.h"
#include "observe/board/rank_board.h"
#include "observe/trace/device_marks.h"

namespace longhaul::observe {

enum class SpanKind : uint8_t {
  kForward,
  kBackward,        // gradients of inputs and of weights
  kBackwardInput,   // gradients of inputs; those of weights are computed
  kBackwardWeight,  // in this span
  kGradients,       // the rest of the gradient reduction over ranks, after the passes
  kNorm,            // norm of the gradients, and clipping
  kOptimizer,
  kValues,   // distribution of new weights to the ranks that hold copies
  kNumbers,  // loss and statistics, agreed between all ranks
  kEvaluation,
  kData,        // waiting for the next batch
  kCheckpoint,  // the copy; writing goes on in the background
};
inline constexpr int kSpanKinds = 12;
std::string_view name_of(SpanKind kind);  // "forward"
RankPhase phase_of(SpanKind kind);
// The host does it, or waits in it: waiting for data, copying a checkpoint, evaluating as a whole.
bool is_of_host(SpanKind kind);

struct Span {
  SpanKind kind = SpanKind::kForward;
  int64_t begin_ns = 0, end_ns = 0;
  int64_t chunk = -1, micro_batch = -1;  // −1: none
  bool operator==(const Span&) const = default;
};

// CallSpan: a call of a communicator, from the rank's request to the end that the back end reports, else as
// the rank saw it.
struct CallSpan {
  std::string group;  // path of the group: "world/tp 3"
  std::string kind;   // "all_reduce"
  std::string name;   // what the call is for
  int64_t sequence = 0;
  int64_t sent = 0, received = 0;                          // bytes
  std::vector<int64_t> sends_to = {}, receives_from = {};  // for an exchange: ranks of the world
  int64_t begin_ns = 0, end_ns = 0;
  // Times in which the computing thread waited, or worked for the call: from begin_ns until started_ns, and
  // from waited_from_ns until waited_until_ns. 0: it did not.
  int64_t started_ns = 0, waited_from_ns = 0, waited_until_ns = 0;
  bool operator==(const CallSpan&) const = default;
};

// BesideSpan: work of another thread of the rank, beside its steps.
struct BesideSpan {
  std::string name;  // "checkpoint of step 500"
  int64_t begin_ns = 0, end_ns = 0;
  bool operator==(const BesideSpan&) const = default;
};

struct StepTrace {
  int64_t step = 0;
  int64_t begin_ns = 0, end_ns = 0;
  std::vector<Span> spans;      // in the order of their ends
  std::vector<CallSpan> calls;  // in the order of their ends
  // Reported since the last recorded step, so it may have begun and ended before this one.
  std::vector<BesideSpan> beside = {};
  int64_t dropped = 0;  // spans and calls for which there was no space
  bool operator==(const StepTrace&) const = default;
};

class SpanRecorder {
 public:
  explicit SpanRecorder(size_t most = 1 << 16) : most_(most) {}
  bool on() const { return on_.load(std::memory_order_relaxed); }
  // True: the calling thread has started the step, or computes for it (ComputesFor).
  bool computes_here() const;

  void show_on(BoardWriter& board) { board_ = &board; }  // the board must outlive this recorder
  BoardWriter& board() const { return *board_; }         // before that, a board without a file

  // For TaskPhase (task_phase.h), which keeps the phase around it. The seconds are added up by name, whether
  // a step is recorded or not, until somebody takes them.
  TaskPhaseState begin_task_phase(const TaskPhaseState& phase);
  void task_phase_progressed(const TaskPhaseState& phase);
  void end_task_phase(const std::string& name, double seconds, const TaskPhaseState& outer);
  std::map<std::string, double> take_task_seconds();
  double seconds_in_task_phases() const;  // of this process so far, in any of them

  // From now on scopes of computing are counted on the device's queue; null: on the host's clock. Each step
  // begins with restart_marks(), while the device is idle.
  void count_on(std::unique_ptr<DeviceMarks> marks);
  void restart_marks();
  bool marks_here() const { return marks_ != nullptr; }
  std::optional<size_t> mark(SpanKind kind);  // none: the kind is of the host, or there is no device
  // The device's seconds by phase since restart_marks(); nothing where there is no device, or where it cannot
  // be asked any more. Waits for it.
  std::optional<PhaseSeconds> device_seconds();

  void start(int64_t step);
  StepTrace stop();
  std::optional<size_t> add(const Span& span);  // → its place; ignored while it is off
  void add_marks(SpanKind kind, size_t begin, size_t end,
                 std::optional<size_t> place);  // of a span's begin and end
  void add(CallSpan call);
  void add(BesideSpan beside);  // kept for the next recorded step, once a step was recorded

 private:
  struct Marked {
    SpanKind kind;
    size_t begin, end;            // marks
    std::optional<size_t> place;  // in the trace
  };
  std::vector<double> times_of_marks();  // empty: the device cannot be asked

  const size_t most_;
  std::unique_ptr<DeviceMarks> marks_;
  int64_t marks_begin_ns_ = 0;
  std::vector<Marked> marked_;
  BoardWriter none_;
  BoardWriter* board_ = &none_;
  std::atomic<bool> on_ = false;
  mutable std::mutex mutex_;
  StepTrace trace_;
  bool recorded_ = false;  // true once a step was recorded
  std::vector<BesideSpan> beside_;
  TaskPhaseState task_phase_;
  std::map<std::string, double> task_seconds_;
  double seconds_in_task_phases_ = 0;
};

// ComputesFor: while an object lives, the calling thread computes for the recorder's step in place of the
// thread that started it, which waits meanwhile.
class ComputesFor {
 public:
  explicit ComputesFor(const SpanRecorder& recorder);
  ~ComputesFor();
  ComputesFor(const ComputesFor&) = delete;
  ComputesFor& operator=(const ComputesFor&) = delete;

 private:
  const SpanRecorder* before_;
};

class SpanScope {
 public:
  SpanScope(SpanRecorder& recorder, SpanKind kind, int64_t chunk = -1, int64_t micro_batch = -1,
            CallSite at = CallSite::here())
      : recorded_(recorder.on()),
        recorder_(recorded_ || recorder.marks_here() ? &recorder : nullptr),
        board_(recorder.board()) {
    if (recorder_ != nullptr) {
      span_ = {.kind = kind, .begin_ns = monotonic_ns(), .chunk = chunk, .micro_batch = micro_batch};
      begin_ = recorder_->mark(kind);
    }
    if (board_.on()) before_ = board_.enter(phase_of(kind), at, micro_batch);
  }
  ~SpanScope() {
    if (board_.on()) board_.enter(before_);
    if (recorder_ == nullptr) return;
    span_.end_ns = monotonic_ns();
    const std::optional<size_t> place = recorded_ ? recorder_->add(span_) : std::nullopt;
    if (!begin_) return;
    if (const auto end = recorder_->mark(span_.kind)) recorder_->add_marks(span_.kind, *begin_, *end, place);
  }
  SpanScope(const SpanScope&) = delete;
  SpanScope& operator=(const SpanScope&) = delete;

 private:
  bool recorded_;
  SpanRecorder* recorder_;
  BoardWriter& board_;
  RankPhase before_ = RankPhase::kIdle;
  Span span_;
  std::optional<size_t> begin_;
};

}  // namespace longhaul::observe
