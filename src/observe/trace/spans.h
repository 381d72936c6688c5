// SpanRecorder: what a rank did when, for pictures of time and for the sum of where it went. Off until a step is asked for; then every scope is
// two looks at the clock, and every call of a communicator one entry. Off, a scope is one branch and allocates nothing.
//
//   recorder.start(step);                                               // by the thread that computes
//   { const SpanScope scope(recorder, SpanKind::kForward, chunk, micro_batch); … }
//   const StepTrace trace = recorder.stop();
//
// With a board (rank_board.h) each scope is a phase of the rank too, recorded or not.
// Times are monotonic_ns(). At most `most` spans and as many calls are kept of a step; the rest is counted. Calls come from comm::CallLog. Any
// thread; start() and stop() by the one that computes.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/call_site.h"
#include "base/clock.h"
#include "observe/board/rank_board.h"

namespace longhaul::observe {

enum class SpanKind : uint8_t {
  kForward,
  kBackward,        // gradients of inputs and of weights
  kBackwardInput,   // of inputs; those of weights wait for
  kBackwardWeight,  // this
  kGradients,       // what is left of their sum over ranks behind the passes
  kNorm,            // of gradients, and clipping
  kOptimizer,
  kValues,   // new weights, to the ranks that hold copies
  kNumbers,  // loss and statistics, agreed by all ranks
  kEvaluation,
  kData,        // waiting for the next batch
  kCheckpoint,  // its copy; writing goes on behind
};
inline constexpr int kSpanKinds = 12;
std::string_view name_of(SpanKind kind);  // "forward"
RankPhase phase_of(SpanKind kind);

struct Span {
  SpanKind kind = SpanKind::kForward;
  int64_t begin_ns = 0, end_ns = 0;
  int64_t chunk = -1, micro_batch = -1;  // −1: of none
  bool operator==(const Span&) const = default;
};

// A call of a communicator, from when the rank asked for it to its end: as the back end tells it, else as the rank saw it.
struct CallSpan {
  std::string group;  // path: "world/tp 3"
  std::string kind;   // "all_reduce"
  std::string name;   // what it is for
  int64_t sequence = 0;
  int64_t sent = 0, received = 0;                          // bytes
  std::vector<int64_t> sends_to = {}, receives_from = {};  // ranks of the world, of an exchange
  int64_t begin_ns = 0, end_ns = 0;
  // The thread that computes stood still, or worked for the call: from its begin until then, and from the one to the other. 0: it did not.
  int64_t started_ns = 0, waited_from_ns = 0, waited_until_ns = 0;
  bool operator==(const CallSpan&) const = default;
};

// What another thread of the rank did beside its steps.
struct BesideSpan {
  std::string name;  // "checkpoint of step 500"
  int64_t begin_ns = 0, end_ns = 0;
  bool operator==(const BesideSpan&) const = default;
};

struct StepTrace {
  int64_t step = 0;
  int64_t begin_ns = 0, end_ns = 0;
  std::vector<Span> spans;              // in the order of their ends
  std::vector<CallSpan> calls;          // likewise
  std::vector<BesideSpan> beside = {};  // that was told since the last recorded step: it may have begun and ended before this one
  int64_t dropped = 0;                  // spans and calls for which there was no room
  bool operator==(const StepTrace&) const = default;
};

class SpanRecorder {
 public:
  explicit SpanRecorder(size_t most = 1 << 16) : most_(most) {}
  bool on() const { return on_.load(std::memory_order_relaxed); }
  bool computes_here() const;  // the calling thread is the one that has started a step, or computes for it (ComputesFor)

  void show_on(BoardWriter& board) { board_ = &board; }  // it outlives this recorder
  BoardWriter& board() const { return *board_; }         // of no file, until then

  void start(int64_t step);
  StepTrace stop();
  void add(const Span& span);  // nothing, when it is off
  void add(CallSpan call);
  void add(BesideSpan beside);  // kept for the next recorded step, once one was recorded

 private:
  const size_t most_;
  BoardWriter none_;
  BoardWriter* board_ = &none_;
  std::atomic<bool> on_ = false;
  std::mutex mutex_;
  StepTrace trace_;
  bool recorded_ = false;  // a step
  std::vector<BesideSpan> beside_;
};

// While one lives, the calling thread computes for the recorder's step in place of the one that has started it, which stands still meanwhile.
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
  SpanScope(SpanRecorder& recorder, SpanKind kind, int64_t chunk = -1, int64_t micro_batch = -1, CallSite at = CallSite::here())
      : recorder_(recorder.on() ? &recorder : nullptr), board_(recorder.board()) {
    if (recorder_ != nullptr) span_ = {.kind = kind, .begin_ns = monotonic_ns(), .chunk = chunk, .micro_batch = micro_batch};
    if (board_.on()) before_ = board_.enter(phase_of(kind), at, micro_batch);
  }
  ~SpanScope() {
    if (board_.on()) board_.enter(before_);
    if (recorder_ == nullptr) return;
    span_.end_ns = monotonic_ns();
    recorder_->add(span_);
  }
  SpanScope(const SpanScope&) = delete;
  SpanScope& operator=(const SpanScope&) = delete;

 private:
  SpanRecorder* recorder_;
  BoardWriter& board_;
  RankPhase before_ = RankPhase::kIdle;
  Span span_;
};

}  // namespace longhaul::observe
