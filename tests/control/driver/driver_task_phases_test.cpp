// How long DriverCore waits for ranks in a phase that a task has named.
#include "control/driver/driver_bench.h"

#include <gmock/gmock.h>

namespace longhaul::control {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Rank 0 stands in a phase of its task, and rank 1 waits for it in a call.
class PhasesOfTasks : public Driver {
 protected:
  void stand(const observe::TaskPhaseState& phase, int64_t step, double age_s) {
    NodeBeat beat{.generation = bench->core->generation(), .running = {}, .ended = {}};
    RankBeat first{.rank = 0,
                   .generation = bench->core->generation(),
                   .progress_age_s = age_s,
                   .step = step,
                   .resumed_step = 0};
    RankBeat second = first;
    second.rank = 1;
    first.phase = "task";
    first.task_phase = phase;
    second.phase = "communication";
    second.progress_age_s = bench->now_s - begin_s;
    beat.running = {first, second};
    bench->send(FromNode{"node-0", beat});
    bench->wait(1);
  }
  // Seconds until the ranks count as hanging, while rank 0 makes progress every `every_s`; `most_s`: not
  // until then.
  double hangs_after_s(observe::TaskPhaseState phase, int64_t step, double every_s, double most_s) {
    begin_s = bench->now_s;
    double progress_s = begin_s;
    while (bench->core->state() == State::kTrain && bench->now_s < begin_s + most_s) {
      if (bench->now_s - progress_s >= every_s) ++phase.done, progress_s = bench->now_s;
      stand(phase, step, bench->now_s - progress_s);
    }
    return bench->now_s - begin_s;
  }
  void start_without_a_step() {
    bench.emplace(1, 0);
    bench->begin();
    bench->join_all();
    bench->beats(0, 0);
    bench->wait(1);
    ASSERT_EQ(bench->core->state(), State::kTrain);
  }
  double begin_s = 0;
  static constexpr double kNever = 1e9;
};

TEST_F(PhasesOfTasks, ALongOneThatMakesProgressIsNoHang) {
  start(1);
  EXPECT_GE(hangs_after_s({.name = "rollout"}, 10, /*every_s=*/50, /*most_s=*/7200), 7200);
  EXPECT_EQ(bench->core->state(), State::kTrain);
}

TEST_F(PhasesOfTasks, AStuckOneIsAHangAfterFiveTimesWhatWasSeen) {
  start(1);
  EXPECT_GE(hangs_after_s({.name = "rollout"}, 10, /*every_s=*/100, /*most_s=*/450), 450);
  bench->train(11, 12);
  EXPECT_NEAR(hangs_after_s({.name = "rollout"}, 13, kNever, 4000), 5 * 100, 5);
  EXPECT_EQ(bench->core->state(), State::kSuspect);
}

TEST_F(PhasesOfTasks, AStuckOneIsAHangAfterWhatTheTaskStates) {
  start(1);
  EXPECT_NEAR(hangs_after_s({.name = "rollout", .allowed_s = 900}, 10, kNever, 4000), 900, 3);
  EXPECT_EQ(bench->core->state(), State::kSuspect);
}

// The first step takes longer than a first step may, because the task generates for so long.
TEST_F(PhasesOfTasks, OneInTheFirstStepIsNoLateFirstStep) {
  start_without_a_step();
  EXPECT_GE(hangs_after_s({.name = "rollout"}, 0, /*every_s=*/60, 3 * bench->policy.first_step_s),
            3 * bench->policy.first_step_s);
  begin_s = bench->now_s;
  while (bench->core->state() == State::kTrain && bench->now_s < begin_s + 10000) {
    bench->beats(0, 0, "forward", bench->now_s - begin_s);
    bench->wait(1);
  }
  EXPECT_NEAR(bench->now_s - begin_s, bench->policy.first_step_s, 10)
      << "the rest of the step has its whole time";
}

TEST_F(PhasesOfTasks, AStuckOneInTheFirstStepIsAHang) {
  start_without_a_step();
  EXPECT_NEAR(hangs_after_s({.name = "rollout", .allowed_s = 300}, 0, kNever, 4000), 300, 3);
  EXPECT_EQ(bench->core->state(), State::kSuspect);
}

}  // namespace
}  // namespace longhaul::control
