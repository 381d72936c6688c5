// Phases that a task names: on the board, in the seconds of a step, one inside another.
#include "observe/trace/task_phase.h"

#include <gtest/gtest.h>

#include "base/files/temporary_folder.h"
#include "observe/board/run_status.h"

namespace longhaul::observe {
namespace {

class TaskPhases : public ::testing::Test {
 protected:
  TaskPhases() { recorder_.show_on(board_); }
  RankProgress now() const { return BoardReader::open(folder_.path() / "board")->progress(); }

  TemporaryFolder folder_;
  BoardWriter board_{folder_.path() / "board", {.rank = 0, .generation = 1, .node = "here"}};
  SpanRecorder recorder_;
};

TEST_F(TaskPhases, TheBoardShowsTheInnermostAndItsProgress) {
  const SpanScope span(recorder_, SpanKind::kData);
  {
    TaskPhase rollout(recorder_, "rollout", 900);
    EXPECT_EQ(now().phase, RankPhase::kTask);
    EXPECT_EQ(now().task_phase, (TaskPhaseState{.name = "rollout", .allowed_s = 900}));
    const int64_t before_ns = now().progress_ns;
    rollout.progress(12, 64);
    EXPECT_GT(now().progress_ns, before_ns);
    EXPECT_EQ(phase_text(name_of(now().phase), now().task_phase), "rollout, 12 of 64");
    {
      const TaskPhase reward(recorder_, "reward");
      EXPECT_EQ(now().task_phase, TaskPhaseState{.name = "reward"});
      const int64_t in_reward_ns = now().progress_ns;
      rollout.progress(13, 64);
      EXPECT_GT(now().progress_ns, in_reward_ns) << "it may be reported by another thread";
      EXPECT_EQ(now().task_phase.name, "reward");
    }
    EXPECT_EQ(now().phase, RankPhase::kTask);
    EXPECT_EQ(now().task_phase.name, "rollout");
    EXPECT_EQ(now().task_phase.allowed_s, 900);
  }
  EXPECT_EQ(now().phase, RankPhase::kData);
  EXPECT_EQ(now().task_phase, TaskPhaseState{});
  EXPECT_EQ(phase_text(name_of(now().phase), now().task_phase), "data");
}

TEST_F(TaskPhases, SecondsAreAddedUpByNameUntilTheyAreTaken) {
  const int64_t begin_ns = monotonic_ns();
  for (int i = 0; i < 2; ++i) {
    const TaskPhase rollout(recorder_, "rollout");
    const TaskPhase reward(recorder_, "reward");
  }
  const double most_s = static_cast<double>(monotonic_ns() - begin_ns) * 1e-9;
  const double outermost_s = recorder_.seconds_in_task_phases();
  const auto seconds = recorder_.take_task_seconds();
  ASSERT_EQ(seconds.size(), 2u);
  EXPECT_GT(seconds.at("reward"), 0);
  EXPECT_GE(seconds.at("rollout"), seconds.at("reward"));
  EXPECT_LE(seconds.at("rollout"), most_s);
  EXPECT_EQ(outermost_s, seconds.at("rollout")) << "an inner phase counts once";
  EXPECT_TRUE(recorder_.take_task_seconds().empty());
}

// While the rank waits for others inside a phase, it waits; afterwards it is in the phase again.
TEST_F(TaskPhases, AStepCountsThemApartFromData) {
  {
    const SpanScope span(recorder_, SpanKind::kData);
    const TaskPhase rollout(recorder_, "rollout");
    const int64_t begin_ns = monotonic_ns();
    while (monotonic_ns() - begin_ns < 2'000'000) continue;
  }
  board_.step_ended({.step = 1, .seconds = 1});
  const PhaseSeconds seconds = now().phase_seconds;
  EXPECT_GE(seconds[static_cast<size_t>(RankPhase::kTask)], 2e-3);
  EXPECT_LT(seconds[static_cast<size_t>(RankPhase::kData)], seconds[static_cast<size_t>(RankPhase::kTask)]);
}

TEST_F(TaskPhases, NamesAreSmallLetters) {
  for (const char* name : {"", "Rollout", "roll out", "a_name_of_more_than_thirty_one_letters"})
    EXPECT_THROW(TaskPhase(recorder_, name), Error) << name;
  EXPECT_EQ(now().phase, RankPhase::kStart);
}

TEST_F(TaskPhases, TheStatusOfARunKeepsThem) {
  RunStatus status;
  status.ranks.push_back({.rank = 3,
                          .phase = "task",
                          .task_phase = {.name = "rollout", .allowed_s = 60, .done = 5, .whole = 0}});
  const RunStatus read = status_from_json(to_json(status));
  EXPECT_EQ(read.ranks.at(0).task_phase, status.ranks[0].task_phase);
  EXPECT_EQ(read.ranks.at(0).doing(), "rollout, 5 done");
}

}  // namespace
}  // namespace longhaul::observe
