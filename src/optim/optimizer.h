// Optimizer: from main gradients to new weights. A step is a list of phases: each looks at all matrices and may leave partial sums
// (Partials); these are added up over the ranks, one fused reduction for each set of axes, before the next phase reads them. The last phase
// writes the master weights. Optimizers that work element by element (AdamW) have one phase and no reduction; factored moments and trust
// ratios need a few, and stay exact under every sharding (specs: optimizers.md §6).
//
// An optimizer of matrices works on shards(), one for each logical tensor that trains; one that works element by element may walk the
// parameters' storages instead, where neighbours lie together. State has shapes of its own and is shown by logical tensor. Where the master
// has the dtype of the value, the value is the master: no second copy. Of everything it has this rank's share (model::Parameter::own), and
// writes that share of the values; whoever cuts them brings the others (parallel::Ranks::share_values). Not thread-safe: one optimizer, one trainer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "model/parameter.h"
#include "optim/shard.h"
#include "recipe/optim_options.h"
#include "tensor/tensor.h"

namespace longhaul::optim {

struct StepSettings {
  double lr = 0;
  double gradient_scale = 1;   // every gradient is used times this: clip factor / tokens
  bool zero_gradients = true;  // leave Parameter::grad at zero, in the same pass where the optimizer can
};

struct Phase {
  std::string name;
  Partials* partials = nullptr;  // what run() writes and the phases after it read; null: nothing to reduce
  std::function<void(const StepSettings& settings)> run;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // One step. Raises the version of every trainable parameter. Do not call it with gradients that are not finite: the step is
  // skipped by the caller and does not count.
  void step(const StepSettings& settings, const Reducer& reduce = {});

  // Steps taken: t of the bias corrections. Skipped steps do not count, so it may lag behind the trainer's step; checkpoints keep it.
  int64_t steps() const { return steps_; }
  void set_steps(int64_t steps);

  // Everything a checkpoint keeps beside steps(), in the order of the parameters. Frozen tensors have a "master" only: their value.
  virtual std::vector<StateTensor> state() = 0;

  void take_masters_from_values();  // after somebody wrote values; the constructor has done it once
  void refresh_values();            // after somebody wrote masters: the working copies become their rounding, versions rise

 protected:
  Optimizer(model::ParameterSet& parameters, Precision precision);
  void add_phase(Phase phase) { phases_.push_back(std::move(phase)); }
  const std::vector<std::unique_ptr<model::Parameter>>& parameters() const { return parameters_.all(); }
  Tensor& master(size_t parameter) { return masters_[parameter]; }  // of parameters()[parameter], shaped like its own_value
  std::vector<Shard> shards() const;                                // of all logical tensors that train, in their order
  int64_t next_step() const { return steps_ + 1; }                  // t inside a step
  void append_state(std::vector<StateTensor>& to, size_t parameter, const std::string& kind, const Tensor& like_own) const;
  void refresh_value(size_t parameter) const;  // the working copy becomes the rounding of the master

 private:
  model::ParameterSet& parameters_;
  std::vector<Tensor> masters_;
  std::vector<Phase> phases_;
  int64_t steps_ = 0;
};

// The optimizer that optim.name asks for; kUsage for a name that is not known.
std::unique_ptr<Optimizer> make_optimizer(const recipe::OptimOptions& options, model::ParameterSet& parameters, Precision precision);

}  // namespace longhaul::optim
