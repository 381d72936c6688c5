// OptimizerState: provides an optimizer's training state to a checkpoint. The master weights have the names
// of the logical tensors, in the files "model"; the other states of a tensor are "optimizer.<kind>.<name>",
// in the files "optimizer". The number of steps that the optimizer has taken is a fact.
#pragma once

#include "checkpoint/state.h"
#include "optim/optimizer.h"

namespace longhaul::checkpoint {

class OptimizerState final : public StateProvider {
 public:
  explicit OptimizerState(optim::Optimizer& optimizer) : optimizer_(optimizer) {}
  std::vector<StateEntry> tensors() override;
  nlohmann::json facts() override { return {{"optimizer_steps", optimizer_.steps()}}; }
  // Also refreshes the working copies of the weights from the masters.
  void restore(const SavedFacts& facts) override;

 private:
  optim::Optimizer& optimizer_;
};

}  // namespace longhaul::checkpoint
