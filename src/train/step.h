// Step: one optimizer step on the micro-batches that a Task has prepared: forward and backward pass of each,
// gradient accumulation in the main gradients, the sum over ranks, the norm, clipping, and the update. All
// ranks agree on weight, loss, norm and finiteness before anything is applied, so a step is taken on all
// ranks or on none. A step whose loss or gradient is NaN or Inf changes nothing; the micro-batches are then
// run again to find the first block whose output is not finite.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "optim/batch_noise.h"
#include "optim/optimizer.h"
#include "parallel/ranks.h"
#include "recipe/channels/experts.h"
#include "train/task.h"

namespace longhaul::train {

class StepArena;

struct StepOptions {
  double lr = 0;
  double decay_factor = 1;  // on weight decay
  double clip_norm = 0;
  uint64_t seed = 0;
  recipe::RouterOptions router{};  // how the biases and thresholds by which routers choose are updated
  bool measure_first = false;      // StepResult::first
  bool measure_update = false;     // optim/step_measures.h, and the clip factor, among StepResult::metrics
  bool measure_entry = false;      // StepResult::entry_skew_s; one more call of the worker's ranks
  StepArena* arena = nullptr;      // the passes' memory; null: from the heap
  // Asked, once loss and norm are those of all ranks, whether the values are doubtful; values that are not
  // finite always are. If one rank doubts, the passes are run again, which gives the same bits on machines
  // without errors. Empty: everything finite is applied.
  std::function<bool(double loss, double gradient_norm)> doubtful{};
  // called with the gradients of the whole step, times its weight, before the update
  std::function<void()> with_gradients{};
  // called before the state changes; not called where nothing is changed
  std::function<void()> before_update{};
};

struct BadValue {
  std::string layer;   // block, "loss", or the holder of the tensor
  std::string tensor;  // logical tensor, or "output"
  std::string phase;   // "forward", "loss" or "gradient"
};

// The comparison of the two results of a step whose passes were run again.
struct SecondTry {
  bool same = true;  // on all ranks: no machine made an error, or made the same one
  // this rank's own losses, before anything was summed: where they differ, it is this rank that made it
  bool own_same = true;
  double first_loss = 0, first_norm = 0;
};

struct StepResult {
  double loss = 0;            // mean per unit of weight, auxiliary losses not included
  double auxiliary_loss = 0;  // mean likewise; of the experts' routers
  double gradient_norm = 0;   // before clipping
  observe::Metrics metrics;   // what else the task measures, means over all ranks
  StepWork work;              // of all ranks of a worker
  int64_t own_tokens = 0;     // of this rank's replica
  double data_wait_milliseconds = 0;
  // seconds between the first and the last rank to reach the first collective call after the passes
  std::optional<double> entry_skew_s;
  std::optional<BadValue> skipped;  // not finite: nothing was changed
  bool left_out = false;            // finite, doubtful, and the same again: nothing was changed
  std::optional<SecondTry> second_try;
  // of the first micro-batch of every replica; nothing where a step has one only
  std::optional<optim::NormOfBatch> first;
};

// `step` counts from 1.
StepResult run_step(Task& task, optim::Optimizer& optimizer, parallel::Ranks& ranks, int64_t step,
                    const StepOptions& options);

}  // namespace longhaul::train
