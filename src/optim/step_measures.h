// StepMeasures: measures what one step did to the weights, exactly, however they are cut: the root mean
// square of the change and of the weights themselves, over everything that trains and for each role. It
// also collects what some optimizers measure, one number for each tensor, as mean, minimum and maximum:
// LAMB's trust ratios, CAME's mean residual, and the factor by which CAME and Adafactor shrink an update to
// optim.update_clip (docs/sources/optimizers.md §11).
//
//   const StepMeasures measures(optimizer, parameters);     // keeps a copy of the masters
//   optimizer.step(…);
//   measures.of_step(reduce)                                // {"update_rms": …, "update_rms.query": …,
//                                                           "trust_ratio_mean": …}
//
// A collective call of all ranks of a worker: one sum and one maximum, of some dozens of numbers.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "optim/optimizer.h"

namespace longhaul::optim {

class StepMeasures {
 public:
  StepMeasures(Optimizer& optimizer, model::ParameterSet& parameters);
  // Reduces over all ranks, in place.
  using Reduce = std::function<void(const Tensor& numbers, comm::Reduction how)>;
  std::map<std::string, double> of_step(const Reduce& reduce) const;

 private:
  Tensor sums_of_roles() const;  // [roles, 3]: elements, Σ w², Σ (w − w before)²

  Optimizer& optimizer_;
  model::ParameterSet& parameters_;
  std::vector<Tensor> before_;  // masters before the step; undefined for frozen tensors
};

}  // namespace longhaul::optim
