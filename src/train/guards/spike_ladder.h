// SpikeLadder: how a run reacts to a loss or gradient norm that jumps (guard.on_spike; detect/spike.h defines
// a jump), from the mildest reaction to the strongest:
//
//   1 tell       Raise the alarm "loss_spike" and change nothing.
//   2 again      Run the passes of the step again (train/step.h). Different bits mean that a machine made an
//                error: the alarm is "silent_corruption", and the second result is applied unless it is a
//                spike too.
//   3 skip       Equal bits mean that the data or the state are the cause. The step changes nothing.
//   4 roll back  After the second such step within 20: return to the newest checkpoint that is far enough
//                before it, skip the data in between, and lower the learning rate (guard.rate_factor).
//   5 give up    After guard.rollbacks rollbacks, the next spike ends the run with exit code 67.
//
// A NaN or Inf is treated as a spike; train.skip_nonfinite and train.nonfinite_limit apply as well. All ranks
// decide alike, because all have the same numbers. The state (recent losses and norms) is saved with
// checkpoints, so a resumed run decides as an uninterrupted one does. Rollbacks and the learning-rate factor
// are kept in control/skip.json (data/corpus/skip_file.h), which no rollback takes back.
#pragma once

#include <functional>

#include "checkpoint/state.h"
#include "data/corpus/skip_file.h"
#include "detect/spike.h"
#include "observe/events/event_log.h"
#include "recipe/sections/guard_options.h"
#include "train/step.h"

namespace longhaul::train {

// steps in which a second spike means that leaving out one was not enough
inline constexpr int64_t kSpikesTogether = 20;

class SpikeLadder final : public checkpoint::StateProvider {
 public:
  explicit SpikeLadder(recipe::GuardOptions options) : options_(options) {}

  bool watches() const { return options_.on_spike != recipe::OnSpike::kOff; }
  // StepOptions::doubtful; empty below rung 2
  std::function<bool(double loss, double gradient_norm)> doubtful() const;
  // Called after a step. Returns true where the run must roll back. Alarms go to `events`.
  bool roll_back_after(const StepResult& result, int64_t step, observe::EventWriter& events);
  void remember(const std::vector<data::SkipEntry>& skips);  // of skip.json: the rollbacks so far
  // what the schedule's learning rate is multiplied with
  double rate() const { return rate_; }
  int64_t rollbacks() const { return rollbacks_; }
  const recipe::GuardOptions& options() const { return options_; }

  nlohmann::json facts() override;
  // a checkpoint without these facts starts afresh
  void restore(const checkpoint::SavedFacts& facts) override;

 private:
  recipe::GuardOptions options_;
  detect::SpikeWatch watch_;
  int64_t last_step_ = -kSpikesTogether;  // that was left out
  int64_t rollbacks_ = 0;
  double rate_ = 1;
};

}  // namespace longhaul::train
