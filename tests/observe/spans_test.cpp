// What a rank did when: recorded while a step is, and not else.
#include "observe/trace/spans.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/files/temporary_folder.h"

namespace longhaul::observe {
namespace {

TEST(Spans, NothingIsKeptWhenNobodyAsks) {
  SpanRecorder recorder;
  { const SpanScope scope(recorder, SpanKind::kForward, 0, 3); }
  recorder.add(CallSpan{.group = "world", .begin_ns = 1, .end_ns = 2});
  recorder.start(7);
  EXPECT_TRUE(recorder.on());
  const StepTrace trace = recorder.stop();
  EXPECT_EQ(trace.step, 7);
  EXPECT_TRUE(trace.spans.empty());
  EXPECT_TRUE(trace.calls.empty());
  EXPECT_FALSE(recorder.on());
}

TEST(Spans, ScopesLieInTheirStepAndInEachOther) {
  SpanRecorder recorder;
  recorder.start(1);
  {
    const SpanScope outer(recorder, SpanKind::kBackward, 1, 2);
    const SpanScope inner(recorder, SpanKind::kData);
  }
  const StepTrace trace = recorder.stop();
  ASSERT_EQ(trace.spans.size(), 2u);
  const Span &inner = trace.spans[0], &outer = trace.spans[1];
  EXPECT_EQ(inner.kind, SpanKind::kData);
  EXPECT_EQ(outer.kind, SpanKind::kBackward);
  EXPECT_EQ(outer.chunk, 1);
  EXPECT_EQ(outer.micro_batch, 2);
  EXPECT_LE(trace.begin_ns, outer.begin_ns);
  EXPECT_LE(outer.begin_ns, inner.begin_ns);
  EXPECT_LE(inner.begin_ns, inner.end_ns);
  EXPECT_LE(inner.end_ns, outer.end_ns);
  EXPECT_LE(outer.end_ns, trace.end_ns);
}

TEST(Spans, AScopeThatTheStepDoesNotHoldWholeIsLeftOut) {
  SpanRecorder recorder;
  {
    const SpanScope before(recorder, SpanKind::kForward);
    recorder.start(1);
  }
  {
    const SpanScope behind(recorder, SpanKind::kBackward);
    EXPECT_TRUE(recorder.stop().spans.empty());
  }
  recorder.start(2);
  EXPECT_TRUE(recorder.stop().spans.empty());
}

TEST(Spans, ACallThatBeganBeforeIsCutWhereTheStepBegins) {
  SpanRecorder recorder;
  recorder.start(1);
  recorder.add(CallSpan{.group = "world", .begin_ns = 1, .end_ns = monotonic_ns()});
  const StepTrace trace = recorder.stop();
  ASSERT_EQ(trace.calls.size(), 1u);
  EXPECT_EQ(trace.calls[0].begin_ns, trace.begin_ns);
}

TEST(Spans, ThereIsAnEndToWhatIsKept) {
  SpanRecorder recorder(2);
  recorder.start(1);
  for (int i = 0; i < 5; ++i) const SpanScope scope(recorder, SpanKind::kForward, 0, i);
  recorder.add(CallSpan{.group = "world"});
  const StepTrace trace = recorder.stop();
  EXPECT_EQ(trace.spans.size(), 2u);
  EXPECT_EQ(trace.spans[1].micro_batch, 1) << "the first are kept";
  EXPECT_EQ(trace.calls.size(), 1u);
  EXPECT_EQ(trace.dropped, 3);
}

TEST(Spans, ThreadsAreKnown) {
  SpanRecorder mine, other;
  mine.start(1);
  EXPECT_TRUE(mine.computes_here());
  EXPECT_FALSE(other.computes_here());
  std::thread([&] {
    EXPECT_FALSE(mine.computes_here());
    const SpanScope scope(mine, SpanKind::kCheckpoint);
  }).join();
  EXPECT_EQ(mine.stop().spans.size(), 1u);
  EXPECT_FALSE(mine.computes_here());
}

// A device that comes to its marks at the times of a list.
class ScriptedMarks final : public DeviceMarks {
 public:
  explicit ScriptedMarks(std::vector<double> at) : at_(std::move(at)) {}
  void restart() override { marks_ = 0; }
  size_t mark() override { return marks_++; }
  std::vector<double> seconds() override {
    if (at_.empty()) throw std::runtime_error("the device has failed");
    return {at_.begin(), at_.begin() + static_cast<std::ptrdiff_t>(marks_)};
  }

 private:
  std::vector<double> at_;
  size_t marks_ = 0;
};

TEST(Spans, LastAsLongAsTheDeviceTakes) {
  SpanRecorder recorder;
  recorder.count_on(std::make_unique<ScriptedMarks>(std::vector<double>{0.5, 2, 2.25, 5, 5, 5.5}));
  for (const bool recorded : {true, false}) {
    const int64_t before_ns = monotonic_ns();
    recorder.restart_marks();
    if (recorded) recorder.start(4);
    { const SpanScope data(recorder, SpanKind::kData); }
    { const SpanScope forward(recorder, SpanKind::kForward, 0, 0); }
    { const SpanScope backward(recorder, SpanKind::kBackward, 0, 0); }
    { const SpanScope norm(recorder, SpanKind::kNorm); }
    const PhaseSeconds seconds = *recorder.device_seconds();
    EXPECT_DOUBLE_EQ(seconds[static_cast<size_t>(RankPhase::kForward)], 1.5);
    EXPECT_DOUBLE_EQ(seconds[static_cast<size_t>(RankPhase::kBackward)], 2.75);
    EXPECT_DOUBLE_EQ(seconds[static_cast<size_t>(RankPhase::kOptimizer)], 0.5);
    EXPECT_DOUBLE_EQ(seconds[static_cast<size_t>(RankPhase::kData)], 0);
    if (!recorded) continue;
    const StepTrace trace = recorder.stop();
    ASSERT_EQ(trace.spans.size(), 4u);
    EXPECT_LT(trace.spans[0].end_ns - trace.spans[0].begin_ns, 500'000'000);  // the host's own
    const auto length = [&](size_t i) { return trace.spans[i].end_ns - trace.spans[i].begin_ns; };
    EXPECT_NEAR(static_cast<double>(length(1)), 1.5e9, 2);
    EXPECT_NEAR(static_cast<double>(length(2)), 2.75e9, 2);
    EXPECT_NEAR(static_cast<double>(trace.spans[2].begin_ns - trace.spans[1].end_ns), 0.25e9, 2);
    EXPECT_GE(trace.spans[1].begin_ns, before_ns + 500'000'000);
  }
}

// The step that finds a device dead ends by that error, not by the question how long it took.
TEST(Spans, OfADeviceThatHasFailedAreTheHosts) {
  SpanRecorder recorder;
  recorder.count_on(std::make_unique<ScriptedMarks>(std::vector<double>()));
  recorder.restart_marks();
  recorder.start(1);
  { const SpanScope forward(recorder, SpanKind::kForward); }
  EXPECT_FALSE(recorder.device_seconds());
  const StepTrace trace = recorder.stop();
  ASSERT_EQ(trace.spans.size(), 1u);
  EXPECT_LE(trace.spans[0].end_ns, trace.end_ns);
}

TEST(Spans, AreThePhasesOfABoard) {
  const TemporaryFolder folder;
  BoardWriter board(folder.path() / "board", {});
  const auto reader = BoardReader::open(folder.path() / "board");
  SpanRecorder recorder;  // that records nothing
  recorder.show_on(board);
  board.enter(RankPhase::kIdle);
  {
    const SpanScope forward(recorder, SpanKind::kForward, 0, 3);
    EXPECT_EQ(reader->progress().phase, RankPhase::kForward);
    EXPECT_EQ(reader->progress().micro_step, 3);
    {
      const SpanScope norm(recorder, SpanKind::kNorm);
      EXPECT_EQ(reader->progress().phase, RankPhase::kOptimizer);
      EXPECT_NE(reader->progress().phase_at.find("spans_test.cpp:"), std::string::npos);
    }
    EXPECT_EQ(reader->progress().phase, RankPhase::kForward);
  }
  EXPECT_EQ(reader->progress().phase, RankPhase::kIdle);
}

}  // namespace
}  // namespace longhaul::observe
