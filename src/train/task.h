// Task: what is trained: it owns the model and knows its data, its loss and how to judge it. Pre-training, fine-tuning, preference and
// reinforcement learning, diffusion are Tasks; Step and Trainer know none of them. train.task names one (tasks.h).
//
// A loss is (sum, weight): the step divides the sum over all micro-batches, and ranks, by the weight of the whole step, so how a
// step is cut into micro-batches does not change its gradient. The same of what else it measures.
//
// A step is prepare(), forward() of each micro-batch, step_metrics(). State that the task has beside its parameters moves in prepare() alone:
// forward() may run again (to find what is not finite, to recompute) and leaves no trace but what the next one of that micro-batch
// overwrites. One task, one trainer thread.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "checkpoint/state.h"
#include "data/order/data_position.h"
#include "model/context.h"
#include "model/parameter.h"
#include "observe/events/event.h"
#include "optim/schedule.h"

namespace longhaul::train {

struct StepWork {
  int64_t micro_batches = 0;
  double weight = 0;   // that the summed loss is divided by: labelled tokens of the whole step
  int64_t tokens = 0;  // that count as trained; weight and tokens are of this replica, the step adds them up
};

// A mean, as what it is made of.
struct Metric {
  double sum = 0, weight = 0;
};

struct TaskSample {
  std::string prompt, text;
};

// Hidden states on their way from one stage of the model to the next.
struct StageInput {
  std::vector<int64_t> sizes;
  ScalarType type = at::kFloat;
};

class Task {
 public:
  virtual ~Task() = default;
  virtual model::ParameterSet& parameters() = 0;
  virtual const Precision& precision() const = 0;

  virtual StepWork prepare(int64_t step) = 0;  // fetches the step's data; steps count from 1
  // How the batch has grown by what was measured: all of it, in order, in the place of what was said before. Steps from here on are so.
  virtual void set_growth(const std::vector<optim::BatchGrowth>& grown);
  // Instead the first micro-batch that another replica had of the step, for a look at what it computes; the next step is prepared as usual. False: the
  // task cannot.
  virtual bool prepare_of(int64_t /*step*/, int64_t /*replica*/) { return false; }

  // This rank's stage of the model on a micro-batch of what prepare() fetched. `entering`: the hidden states that the stage before gives,
  // undefined in the first. Result: those that leave, or of the last stage the loss: a scalar, the sum. Whoever runs the stages carries them
  // between ranks, forward and backward; a task of one process has one stage, the first and last.
  virtual Tensor forward(model::Context& context, int64_t micro_batch, const Tensor& entering) = 0;
  virtual StageInput stage_input(int64_t micro_batch) const;  // what enters, asked of all stages but the first

  // Of the step's micro-batches, as this rank has seen them. All ranks give the same names; where a rank knows nothing the weight is 0.
  virtual std::map<std::string, Metric> step_metrics() { return {}; }

  // By name: text has "loss" (nats per token), "bits_per_byte", "perplexity"; masked text "loss" and "bits_per_masked_token". whole: everything held out. go_on is asked between batches.
  // Nothing: no held-out data, or go_on said no. On several ranks all call it, all ask go_on equally often, and all get the same.
  virtual std::optional<observe::Metrics> evaluate(bool /*whole*/, const std::function<bool()>& /*go_on*/) { return std::nullopt; }
  // Called on all ranks; the first one's is shown.
  virtual std::optional<TaskSample> sample() { return std::nullopt; }

  // State beside parameters and optimizer, saved and restored with the run. Names of its tensors begin with checkpoint::kTaskPrefix.
  virtual std::vector<checkpoint::StateProvider*> state() { return {}; }

  // What of the data a run depends on that goes on with this step: saved with each checkpoint. require_same_data() compares what was saved
  // with what this start has, and throws (kData) where the run would not go on as it began.
  virtual nlohmann::json data_position(int64_t /*step*/) const { return nlohmann::json::object(); }
  virtual void require_same_data(const nlohmann::json& /*saved*/, int64_t /*step*/) const {}
  // The data of these steps, as they are now, in numbers of samples; and from now on samples are passed over. Nothing: the task has no order of samples.
  virtual std::optional<data::SampleRange> samples_of(int64_t /*first_step*/, int64_t /*last_step*/) const { return std::nullopt; }
  virtual void pass_over(const std::vector<data::SampleRange>& /*ranges*/) {}
  virtual double epochs_after(int64_t /*step*/) const { return 0; }  // how often the data have been read by then; 0: nobody counts
};

}  // namespace longhaul::train
