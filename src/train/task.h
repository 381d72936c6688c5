// Task: what is trained: it owns the model and knows its data, its loss and how to judge it. Pre-training, fine-tuning, preference and
// reinforcement learning, diffusion are Tasks; Step and Trainer know none of them.
//
// A loss is (sum, weight): the step divides the sum over all micro-batches, and ranks, by the weight of the whole step, so how a
// step is cut into micro-batches does not change its gradient. One task, one trainer thread.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "model/context.h"
#include "model/parameter.h"

namespace longhaul::train {

struct StepWork {
  int64_t micro_batches = 0;
  double weight = 0;   // that the summed loss is divided by: labelled tokens of the whole step
  int64_t tokens = 0;  // that count as trained
  double epoch = 0;    // how often the data have been read after this step; 0: unknown
};

struct TaskEvaluation {
  double loss = 0;  // nats per token
  double bits_per_byte = 0;
  double perplexity = 0;
};

struct TaskSample {
  std::string prompt, text;
};

class Task {
 public:
  virtual ~Task() = default;
  virtual model::ParameterSet& parameters() = 0;
  virtual const Precision& precision() const = 0;

  virtual StepWork prepare(int64_t step) = 0;                             // fetches the step's data; steps count from 1
  virtual Tensor loss(model::Context& context, int64_t micro_batch) = 0;  // scalar: the sum, of what prepare() fetched

  // whole: everything held out. go_on is asked between batches. Nothing: no held-out data, or go_on said no.
  virtual std::optional<TaskEvaluation> evaluate(bool whole, const std::function<bool()>& go_on) = 0;
  virtual std::optional<TaskSample> sample() = 0;
};

}  // namespace longhaul::train
