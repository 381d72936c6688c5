// Optimizer: computes new weights from main gradients. A step is a list of phases. Each phase goes over all
// matrices and may leave partial sums (Partials); these are summed over the ranks, with one fused reduction
// for each set of axes, before the next phase reads them. The last phase writes the master weights.
// Optimizers that work element by element (AdamW) have one phase and no reduction; factored moments and
// trust ratios need a few phases, and stay exact under every sharding (docs/sources/optimizers.md §6).
//
// One optimizer has all tensors, or several optimizers divide them (Members; recipe/sections/optim_groups.h
// says which optimizer has which tensor). An optimizer of matrices works on shards(), one for each logical
// tensor that trains; one that works element by element may instead walk the storages of the parameters,
// where neighbouring tensors are contiguous. Optimizer state has shapes of its own and is presented by
// logical tensor. When the master has the dtype of the value, the value itself is the master: there is no
// second copy. The optimizer has only this rank's share of everything (model::Parameter::own) and writes
// that share of the values; the code that cuts the values brings the other shares
// (parallel::Ranks::share_values). Not thread-safe: one optimizer, one trainer.
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
  double gradient_scale = 1;   // multiplies every gradient: clip factor / tokens
  double decay_factor = 1;     // multiplies weight decay (TrainSchedule::weight_decay_factor)
  bool zero_gradients = true;  // leave Parameter::grad at zero, in the same pass where the optimizer can
};

struct Phase {
  std::string name;
  Partials* partials = nullptr;  // what run() writes and the phases after it read; null: nothing to reduce
  std::function<void(const StepSettings& settings)> run;
};

// The parameters that an optimizer works on: all of a set, or those that were assigned to it (a tensor has
// one optimizer), and their masters, which the optimizers of one set share.
struct Members {
  // all parameters of a set
  Members(model::ParameterSet& parameters, Precision precision, uint64_t seed = 0);
  bool has(const layout::ParameterSpec& spec) const { return !takes || takes(spec); }

  model::ParameterSet& parameters;
  Precision precision;
  uint64_t seed;                // the run's seed, from which the random streams of the optimizer derive
  std::vector<Tensor> masters;  // of parameters.all(), shaped like own_value
  std::function<bool(const layout::ParameterSpec& spec)> takes;
};

// A measurement that an optimizer makes of a logical tensor during its step: one of these names, and a
// number.
inline constexpr std::string_view kTrustRatio = "trust_ratio", kMeanResidual = "mean_residual",
                                  kUpdateClipFactor = "update_clip_factor";
inline constexpr std::string_view kOfTensors[] = {kTrustRatio, kMeanResidual, kUpdateClipFactor};
struct OfTensor {
  std::string_view name;
  double number = 0;
};

// The parts of a parameter. kFrozen: only the frozen ones, when the code that updated the others has
// already treated those.
enum class Parts { kAll, kFrozen };

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // One step. Raises the version of every trainable parameter. Do not call it with gradients that are not
  // finite: the step is skipped by the caller and does not count.
  void step(const StepSettings& settings, const Reducer& reduce = {});

  // The number of steps taken, t in the bias corrections. Skipped steps do not count, so it may be smaller
  // than the trainer's step; checkpoints keep it.
  int64_t steps() const { return steps_; }
  void set_steps(int64_t steps);

  // Everything that a checkpoint keeps in addition to steps(), in the order of the parameters. Frozen
  // tensors have only a "master": their value.
  virtual std::vector<StateTensor> state() = 0;

  // After a step: the measurements of each tensor, on one of the ranks that share it
  // (optim/step_measures.h).
  virtual std::vector<OfTensor> measured() const { return {}; }

  // The masters of the set's parameters, in their order, shaped like own_value. Code that writes them must
  // call refresh_values() afterwards.
  const std::vector<Tensor>& masters() const { return members_.masters; }
  void take_masters_from_values();  // call it after values were written; the constructor does it once
  // Call it after masters were written: the working copies become the rounded masters, and versions rise.
  void refresh_values();

 protected:
  explicit Optimizer(Members members);
  void add_phase(Phase phase) { phases_.push_back({std::move(phase)}); }
  // Takes over the phases of an optimizer of some of the members, whose learning rate is `lr_factor` times
  // this one's. Its first phase runs with the first phase here, and so on, and the sums of both are reduced
  // together.
  void adopt(Optimizer& of_some, double lr_factor);
  const Members& members() const { return members_; }
  const std::vector<std::unique_ptr<model::Parameter>>& parameters() const {
    return members_.parameters.all();
  }
  // of parameters()[parameter], shaped like its own_value
  Tensor& master(size_t parameter) { return members_.masters[parameter]; }
  // of all members that train, in their order
  std::vector<Shard> shards() const;
  int64_t next_step() const { return steps_ + 1; }          // t inside a step
  void append_masters(std::vector<StateTensor>& to) const;  // of all members
  void append_masters(std::vector<StateTensor>& to, size_t parameter) const;
  // Finishes a step of shards(): working copies become the rounded masters, and gradients become zero where
  // that is wanted.
  void refresh_members(const StepSettings& settings, Parts which = Parts::kAll) const;

 private:
  void refresh_value(size_t parameter) const;

  Members members_;
  std::vector<std::vector<Phase>> phases_;  // the phases of each inner list run together
  int64_t steps_ = 0;
};

// Makes the optimizer that optim.name asks for. kUsage for an unknown name, and for narrow states on a
// device other than the CPU. `seed`: the run's seed.
std::unique_ptr<Optimizer> make_optimizer(const recipe::OptimOptions& options,
                                          model::ParameterSet& parameters, Precision precision,
                                          uint64_t seed = 0);

}  // namespace longhaul::optim
