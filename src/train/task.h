// Task: what is trained. A task owns the model and knows its data, its loss and how to judge it.
// Pre-training, fine-tuning, preference learning, reinforcement learning and diffusion are tasks; Step and
// Trainer know none of them. train.task names one (train/task_entry.h).
//
// A loss is a pair (sum, weight): the step divides the sum over all micro-batches and ranks by the weight of
// the whole step, so the way in which a step is cut into micro-batches does not change its gradient. Other
// metrics are treated in the same way.
//
// A step calls prepare(), forward() for each micro-batch, and step_metrics(). State that the task has beside
// its parameters changes in prepare() only: forward() may run again (to find values that are not finite, or
// to recompute) and must leave no trace except what the next forward pass of that micro-batch overwrites. One
// task is used by one trainer thread.
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
  // Auxiliary losses are sums over all tokens. True: they count by what a token weighs on average, weight /
  // tokens of the whole step; false: by 1.
  bool auxiliary_by_weight = false;
  double auxiliary_scale() const {
    return auxiliary_by_weight && tokens > 0 ? weight / static_cast<double>(tokens) : 1;
  }
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

  // A run goes on from a checkpoint, or has gone back to one: `step` steps are done.
  virtual void continue_after(int64_t /*step*/) {}
  virtual StepWork prepare(int64_t step) = 0;  // fetches the step's data; steps count from 1
  // Replaces the list of batch-size increases (decided from the measured gradient noise) by `grown`, in the
  // order of their steps; later steps follow it.
  virtual void set_growth(const std::vector<optim::BatchGrowth>& grown);
  // Prepares the first micro-batch that another replica had in the step, to compare what it computes; the
  // next step is prepared as usual. False: the task cannot.
  virtual bool prepare_of(int64_t /*step*/, int64_t /*replica*/) { return false; }

  // Runs this rank's pipeline stage of the model on one micro-batch of what prepare() fetched. `entering`:
  // the hidden states from the previous stage, undefined in the first stage. Returns the hidden states for
  // the next stage or, in the last stage, the summed loss as a scalar. The caller moves them between ranks,
  // forward and backward; in one process there is one stage, both first and last.
  virtual Tensor forward(model::Context& context, int64_t micro_batch, const Tensor& entering) = 0;
  // describes `entering`; asked in all stages but the first
  virtual StageInput stage_input(int64_t micro_batch) const;

  // Metrics of the step's micro-batches that this rank has seen. All ranks return the same names; a rank
  // without a value returns weight 0.
  virtual std::map<std::string, Metric> step_metrics() { return {}; }

  // Metrics by name: text has "loss" (nats per token), "bits_per_byte" and "perplexity"; masked text has
  // "loss" and "bits_per_masked_token". whole: use all held-out data. go_on is asked between batches. Returns
  // nothing without held-out data, or where go_on returned false. All ranks call it, ask go_on equally often,
  // and get the same result.
  virtual std::optional<observe::Metrics> evaluate(bool /*whole*/, const std::function<bool()>& /*go_on*/) {
    return std::nullopt;
  }
  // A sample of the model's output. All ranks call it; the result of the first rank is shown.
  virtual std::optional<TaskSample> sample() { return std::nullopt; }

  // State beside parameters and optimizer, which is saved and restored with the run. Names of its tensors
  // begin with checkpoint::kTaskPrefix.
  virtual std::vector<checkpoint::StateProvider*> state() { return {}; }

  // A description of the data from which a run would continue after this step; it is saved with each
  // checkpoint. require_same_data() compares the saved one with the data of this start, and throws kData
  // where the run would continue with other data than it began with.
  virtual nlohmann::json data_position(int64_t /*step*/) const { return nlohmann::json::object(); }
  virtual void require_same_data(const nlohmann::json& /*saved*/, int64_t /*step*/) const {}
  // The range of samples that these steps read; nothing where the task has no order of samples. pass_over()
  // leaves out samples from the next step on.
  virtual std::optional<data::SampleRange> samples_of(int64_t /*first_step*/, int64_t /*last_step*/) const {
    return std::nullopt;
  }
  virtual void pass_over(const std::vector<data::SampleRange>& /*ranges*/) {}
  // how often the data have been read after this step; 0: not counted
  virtual double epochs_after(int64_t /*step*/) const { return 0; }
};

}  // namespace longhaul::train
