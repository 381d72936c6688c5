// For the tests of train/: AdamW with clipping worked out with plain tensor operations, apart from src/optim,
// and a task whose losses a test writes down, so that every number of a step can be worked out beside it.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>

#include "data/corpus/skip_file.h"
#include "optim/optimizer.h"
#include "optim/parameters_for_tests.h"
#include "train/run_control.h"
#include "train/task.h"

namespace longhaul::train::testing {

using Tensors = std::map<std::string, Tensor>;  // by logical name

// Decoupled weight decay on matrices alone; gradients are means.
class AdamwByHand {
 public:
  explicit AdamwByHand(recipe::OptimOptions options) : options_(std::move(options)) {}

  // Returns the norm before clipping.
  double step(Tensors& weights, const Tensors& gradients, double lr) {
    double squares = 0;
    for (const auto& [name, gradient] : gradients) squares += gradient.square().sum().item<double>();
    const double norm = std::sqrt(squares);
    const double factor = options_.clip_norm > 0 ? std::min(1.0, options_.clip_norm / (norm + 1e-6)) : 1.0;
    ++steps_;
    for (auto& [name, weight] : weights) {
      const Tensor gradient = gradients.at(name) * factor;
      Tensor &m = m_[name], &v = v_[name];
      m = (m.defined() ? m * options_.beta1 : at::zeros_like(weight)) + gradient * (1 - options_.beta1);
      v = (v.defined() ? v * options_.beta2 : at::zeros_like(weight)) +
          gradient.square() * (1 - options_.beta2);
      const Tensor m_hat = m / (1 - std::pow(options_.beta1, steps_)),
                   v_hat = v / (1 - std::pow(options_.beta2, steps_));
      const double decay = weight.dim() == 2 ? options_.weight_decay : 0;
      weight = weight - lr * decay * weight - lr * m_hat / (v_hat.sqrt() + options_.eps);
    }
    return norm;
  }

 private:
  recipe::OptimOptions options_;
  Tensors m_, v_;
  int steps_ = 0;
};

// One vector w = (1, 2, 3) in fp64, two micro-batches a step, a weight of 8 and 10 tokens. By default each
// micro-batch's loss is (0.3, −0.4, 1.2)·w, so the mean gradient is (0.075, −0.1, 0.3) and the mean loss
// 0.775.
class VectorTask final : public Task {
 public:
  static constexpr double kWeight = 8;

  VectorTask()
      : parameters_({optim::testing::spec("layers.0.vector", {3}, /*decay=*/false)}, precision_, at::kCPU) {
    parameter_ = &parameters_.add_stacked("layers.0.vector", {"layers.0.vector"});
    parameters_.allocate();
    value().copy_(at::arange(1, 4, at::kDouble));
  }
  static Tensor slope() { return at::tensor({0.3, -0.4, 1.2}, at::kDouble); }

  std::function<Tensor(const Tensor& w, int64_t step, int64_t micro_batch)> loss_of =
      [](const Tensor& w, int64_t, int64_t) { return (w * slope()).sum(); };
  Tensor auxiliary_slope;  // where defined, each micro-batch has an auxiliary loss of this times w
  std::function<std::optional<observe::Metrics>(bool whole, const std::function<bool()>& go_on)> on_evaluate =
      [](bool, const std::function<bool()>&) {
        return observe::Metrics{{"loss", 1}, {"bits_per_byte", 2}, {"perplexity", 3}};
      };

  Tensor value() const { return parameter_->value.detach(); }
  model::ParameterSet& parameters() override { return parameters_; }
  const Precision& precision() const override { return precision_; }
  // Step s is given sample s − 1 as its number, or a later one where samples are passed over.
  std::vector<data::SampleRange> passed_over;
  int64_t sample_of(int64_t step) const {
    int64_t sample = step - 1;
    for (const data::SampleRange& range : passed_over)
      sample += sample >= range.begin ? range.end - range.begin : 0;
    return sample;
  }
  std::optional<data::SampleRange> samples_of(int64_t first_step, int64_t last_step) const override {
    return data::SampleRange{sample_of(first_step), sample_of(last_step) + 1};
  }
  void pass_over(const std::vector<data::SampleRange>& ranges) override {
    passed_over.insert(passed_over.end(), ranges.begin(), ranges.end());
    passed_over = data::merged(passed_over);
  }
  StepWork prepare(int64_t step) override {
    step_ = sample_of(step) + 1;
    return {.micro_batches = 2, .weight = kWeight, .tokens = 10};
  }
  Tensor forward(model::Context& context, int64_t micro_batch, const Tensor&) override {
    Tensor w = parameter_->use();
    if (auxiliary_slope.defined())
      w = context.join_auxiliary_loss("layers.0", w, (w * auxiliary_slope).sum());
    const Tensor loss = loss_of(w, step_, micro_batch);
    if (context.inspect) context.inspect("block of micro-batch " + std::to_string(micro_batch), loss);
    return loss;
  }
  std::optional<observe::Metrics> evaluate(bool whole, const std::function<bool()>& go_on) override {
    return on_evaluate(whole, go_on);
  }
  std::optional<TaskSample> sample() override { return TaskSample{"prompt", "text"}; }

 private:
  Precision precision_ = Precision::named("fp64");
  model::ParameterSet parameters_;
  model::Parameter* parameter_ = nullptr;
  int64_t step_ = 0;
};

// Says what a test writes down. That a save is tried again must have been written down.
class ScriptedControl final : public RunControl {
 public:
  std::function<int()> stop = [] { return 0; };
  std::function<bool()> save = [] { return false; };
  std::function<bool(double seconds)> wait = [](double) {
    ADD_FAILURE() << "no save was to be tried again";
    return false;
  };
  int stop_requested() override { return stop(); }
  bool save_requested() override { return save(); }
  bool pause(double seconds) override { return wait(seconds); }
  void evaluated() override { ++evaluations; }
  void trained() override { ++trainings; }
  int evaluations = 0, trainings = 0;
};

// A loss whose value is 0 and whose gradient is NaN: the slope of the root at 0 times that of |x|.
inline Tensor nan_gradient(const Tensor& w) { return (w - w.detach()).abs().sqrt().sum(); }
// Neither is a number.
inline Tensor nan_loss(const Tensor& w) { return w.sum() * std::nan(""); }

}  // namespace longhaul::train::testing
