// SpikeLadder: what a run does about a loss or a gradient norm that jumps (guard.on_spike; detect/spike.h says what is a jump), from the mildest to the last:
//
//   1 tell       an alarm "loss_spike", nothing else
//   2 again      the passes of the step are run again (train/step.h). Other bits: a machine made an error, alarm "silent_corruption", and what came out
//                the second time is applied unless it is a spike too
//   3 skip       the same bits: the data, or the state. The step changes nothing
//   4 roll back  the second such step within 20: the newest checkpoint far enough before it, the data in between passed over, the learning rate
//                lowered (guard.rate_factor)
//   5 give up    the spike after guard.rollbacks of these: exit code 67
//
// A NaN or Inf is treated as a spike; train.skip_nonfinite and train.nonfinite_limit hold as before. All ranks decide alike, by numbers they all have. Its
// state (the last losses and norms) is saved with checkpoints, so that a run that resumes decides as one that went on; rollbacks and the rate are
// kept in control/skip.json (data/corpus/skip_file.h), which no rollback takes back.
#pragma once

#include <functional>

#include "checkpoint/state.h"
#include "data/corpus/skip_file.h"
#include "detect/spike.h"
#include "observe/events/event_log.h"
#include "recipe/sections/guard_options.h"
#include "train/step.h"

namespace longhaul::train {

inline constexpr int64_t kSpikesTogether = 20;  // steps in which a second spike means that leaving out one was not enough

class SpikeLadder final : public checkpoint::StateProvider {
 public:
  explicit SpikeLadder(recipe::GuardOptions options) : options_(options) {}

  bool watches() const { return options_.on_spike != recipe::OnSpike::kOff; }
  std::function<bool(double loss, double gradient_norm)> doubtful() const;  // StepOptions::doubtful; empty below rung 2
  // Behind a step: true: roll back. Alarms go to `events`.
  bool roll_back_after(const StepResult& result, int64_t step, observe::EventWriter& events);
  void remember(const std::vector<data::SkipEntry>& skips);  // of skip.json: the rollbacks so far
  double rate() const { return rate_; }                      // what the schedule's learning rate is multiplied with
  int64_t rollbacks() const { return rollbacks_; }
  const recipe::GuardOptions& options() const { return options_; }

  nlohmann::json facts() override;
  void restore(const checkpoint::SavedFacts& facts) override;  // of a checkpoint without: begins anew

 private:
  recipe::GuardOptions options_;
  detect::SpikeWatch watch_;
  int64_t last_step_ = -kSpikesTogether;  // that was left out
  int64_t rollbacks_ = 0;
  double rate_ = 1;
};

}  // namespace longhaul::train
