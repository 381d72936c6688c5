// TrainSchedule: the batch, learning rate and data position of every step. They are pure functions of the
// recipe, and of how the batch has grown if it follows measurements (train/batch_ramp.h keeps that). The
// loader therefore asks the schedule where a step's samples begin, and resuming needs no other schedule
// state (docs/sources/minimax-01.md §5.2, docs/sources/optimizers.md §10). Stages that begin at a number of
// tokens count those of the stages before them, each with its own batch and length of sequences.
//
// Steps count from 1: step s is the s-th optimizer step of the run. Samples (sequences) and tokens count
// from 0, by the schedule: a step that was skipped because of its gradients has still consumed its samples.
// Thread-safe once made.
#pragma once

#include <cstdint>
#include <vector>

#include "recipe/sections/optim_options.h"
#include "recipe/sections/train_options.h"

namespace longhaul::optim {

// A stretch of steps with one batch, one length of sequences and one peak learning rate.
struct StageState {
  int64_t first_step = 1;
  int64_t first_sample = 0;  // at the beginning of first_step
  int64_t batch = 0;         // sequences per step
  double peak_lr = 0;
  int64_t sequence = 0;     // tokens
  int64_t first_token = 0;  // at the beginning of first_step
  int64_t tokens_per_step() const { return batch * sequence; }
  bool operator==(const StageState&) const = default;
};

// From first_step on, steps have `batch` sequences, because measurements supported it (optim.batch_growth).
struct BatchGrowth {
  int64_t first_step = 0, batch = 0;
  bool operator==(const BatchGrowth&) const = default;
};

class TrainSchedule {
 public:
  // Throws kUsage for a wsd schedule that decays exponentially to 0, which it would never reach, and for
  // stages out of order. `grown`: in the order of steps; peak learning rates grow with the batch as
  // optim.batch_lr_power says.
  TrainSchedule(const recipe::OptimOptions& optim, const recipe::TrainOptions& train,
                const std::vector<BatchGrowth>& grown = {});

  const StageState& stage(int64_t step) const;
  int64_t first_sample(int64_t step) const;  // sum of the batches before `step`
  int64_t batch(int64_t step) const { return stage(step).batch; }
  int64_t sequence(int64_t step) const { return stage(step).sequence; }  // tokens
  int64_t first_token(int64_t step) const;                               // sum of the tokens before `step`
  bool changes_sequence() const;                                         // not all stages have one length

  // Peak of the stage × warm-up × decay. Warm-up: i + (1 − i) rise(s / W), where i is warmup_from, so step
  // W has the peak. Decay goes from 1 at its first step to `final_lr_fraction` at its last step and after.
  // linear, cosine and polynomial ((1 − u)^power) decay over the steps (W, W + decay_steps], by default
  // until train.steps. wsd decays over the last decay_steps before train.steps; with u the share of them
  // that is done, its factor is fraction^u or, with f the fraction, f + (1 − f) times one of 1 − u, (1 +
  // cos πu)/2, 1 − √u, 2 · 0.5^u − 1. inverse_sqrt: √(W/s) from W on (W at least 1), and at least the
  // fraction. cosine_restarts falls from 1 to the fraction along half a cosine within each cycle; step
  // max(W, 1) is the first of the first cycle. Every cycle begins at 1, and the steps of a cycle are those of
  // the one before it times optim.restart_factor (torch's CosineAnnealingWarmRestarts).
  // one_cycle has no warm-up (torch's OneCycleLR): it goes from 1 / cycle_start_divisor at step 1 to 1 at
  // step R = cycle_rise · train.steps, if it is symmetric back to its start at step 2R − 1, and to the start
  // over cycle_end_divisor at train.steps.
  double learning_rate(int64_t step) const;

  // The factor of optim.weight_decay: i + (1 − i) rise(s / train.steps), where i is weight_decay_from; 1
  // from train.steps on. rise(u) is u, (1 − cos πu)/2 or 1 − √(1 − u).
  double weight_decay_factor(int64_t step) const;

  const std::vector<StageState>& stages() const { return stages_; }  // at least one, in order

 private:
  int64_t first_step_of(const recipe::OptimStage& stage) const;  // after the stages that were added so far
  void begin(StageState state);
  void grow(const BatchGrowth& growth);
  double fallen(double done) const;
  double decay(int64_t step) const;
  double restarted(int64_t step) const;
  double in_one_cycle(int64_t step) const;

  recipe::OptimOptions optim_;
  int64_t steps_ = 0;
  std::vector<StageState> stages_;
};

// Tokens of the longest sequences that a run trains on.
int64_t longest_sequence(const recipe::OptimOptions& optim, const recipe::TrainOptions& train);

}  // namespace longhaul::optim
