// Optimizer: from main gradients to new weights. A step is a list of phases: each looks at all matrices and may leave partial sums
// (Partials); these are added up over the ranks, one fused reduction for each set of axes, before the next phase reads them. The last phase
// writes the master weights. Optimizers that work element by element (AdamW) have one phase and no reduction; factored moments and trust
// ratios need a few, and stay exact under every sharding (docs/sources/optimizers.md §6).
//
// One optimizer has all tensors, or several share them (Members; recipe/sections/optim_groups.h says which has which). An optimizer of matrices works on shards(), one for each logical tensor that trains; one that works element by element may walk the
// parameters' storages instead, where neighbours lie together. State has shapes of its own and is shown by logical tensor. Where the master
// has the dtype of the value, the value is the master: no second copy. Of everything it has this rank's share (model::Parameter::own), and
// writes that share of the values; whoever cuts them brings the others (parallel::Ranks::share_values). Not thread-safe: one optimizer, one trainer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/parameter.h"
#include "optim/shard.h"
#include "recipe/sections/optim_options.h"
#include "tensor/tensor.h"

namespace longhaul::optim {

struct StepSettings {
  double lr = 0;
  double gradient_scale = 1;   // every gradient is used times this: clip factor / tokens
  double decay_factor = 1;     // on weight decay (TrainSchedule::weight_decay_factor)
  bool zero_gradients = true;  // leave Parameter::grad at zero, in the same pass where the optimizer can
};

struct Phase {
  std::string name;
  Partials* partials = nullptr;  // what run() writes and the phases after it read; null: nothing to reduce
  std::function<void(const StepSettings& settings)> run;
};

// What an optimizer works on: a set's parameters, all of them or those it has been given (a tensor has one optimizer), and their masters, which
// the optimizers of one set share.
struct Members {
  Members(model::ParameterSet& parameters, Precision precision, uint64_t seed = 0);  // all of a set
  bool has(const layout::ParameterSpec& spec) const { return !takes || takes(spec); }

  model::ParameterSet& parameters;
  Precision precision;
  uint64_t seed;                // of the run: what is drawn has streams of it
  std::vector<Tensor> masters;  // of parameters.all(), shaped like own_value
  std::function<bool(const layout::ParameterSpec& spec)> takes;
};

// What an optimizer finds out about a tensor in its step: one of these names, and a number of the logical tensor.
inline constexpr std::string_view kTrustRatio = "trust_ratio", kMeanResidual = "mean_residual";
inline constexpr std::string_view kOfTensors[] = {kTrustRatio, kMeanResidual};
struct OfTensor {
  std::string_view name;
  double number = 0;
};

// Of a parameter; kFrozen: whoever trained the others has done it to them.
enum class Parts { kAll, kFrozen };

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

  // Behind a step, of each tensor on one rank of those that share it (optim/step_measures.h).
  virtual std::vector<OfTensor> measured() const { return {}; }

  // Of the set's parameters, in their order, shaped like own_value; who writes them calls refresh_values().
  const std::vector<Tensor>& masters() const { return members_.masters; }
  void take_masters_from_values();  // after somebody wrote values; the constructor has done it once
  void refresh_values();            // after somebody wrote masters: the working copies become their rounding, versions rise

 protected:
  explicit Optimizer(Members members);
  void add_phase(Phase phase) { phases_.push_back({std::move(phase)}); }
  // Takes over the phases of an optimizer of some of the members, whose learning rate is `lr_factor` times this one's: its first phase runs with the
  // first one here, and their sums are reduced together.
  void adopt(Optimizer& of_some, double lr_factor);
  const Members& members() const { return members_; }
  const std::vector<std::unique_ptr<model::Parameter>>& parameters() const { return members_.parameters.all(); }
  Tensor& master(size_t parameter) { return members_.masters[parameter]; }  // of parameters()[parameter], shaped like its own_value
  std::vector<Shard> shards() const;                                        // of all members that train, in their order
  int64_t next_step() const { return steps_ + 1; }                          // t inside a step
  void append_masters(std::vector<StateTensor>& to) const;                  // of all members
  void append_masters(std::vector<StateTensor>& to, size_t parameter) const;
  // What follows a step of shards(): working copies become the rounding of their masters, and gradients zero where that is wanted.
  void refresh_members(const StepSettings& settings, Parts which = Parts::kAll) const;

 private:
  void refresh_value(size_t parameter) const;

  Members members_;
  std::vector<std::vector<Phase>> phases_;  // those of one moment run together
  int64_t steps_ = 0;
};

// The optimizer that optim.name asks for; kUsage for a name that is not known, and for narrow states on another device than the CPU. `seed`: of the run.
std::unique_ptr<Optimizer> make_optimizer(const recipe::OptimOptions& options, model::ParameterSet& parameters, Precision precision,
                                          uint64_t seed = 0);

}  // namespace longhaul::optim
