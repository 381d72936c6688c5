// OptimizerState: an optimizer as a provider of training state: masters under the names of the logical tensors in the files "model", the other
// states of a tensor under "optimizer.<kind>.<name>" in the files "optimizer", and the number of steps it has taken.
#pragma once

#include "checkpoint/state.h"
#include "optim/optimizer.h"

namespace longhaul::checkpoint {

class OptimizerState final : public StateProvider {
 public:
  explicit OptimizerState(optim::Optimizer& optimizer) : optimizer_(optimizer) {}
  std::vector<StateEntry> tensors() override;
  nlohmann::json facts() override { return {{"optimizer_steps", optimizer_.steps()}}; }
  void restore(const SavedFacts& facts) override;  // the working copies of the weights follow the masters

 private:
  optim::Optimizer& optimizer_;
};

}  // namespace longhaul::checkpoint
