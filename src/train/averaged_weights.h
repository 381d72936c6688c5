// AveragedWeights: a copy of the trained weights that follows them slowly (optim.average), after each step
//
//   average = decay · average + (1 − decay) · weight
//
// in the precision of masters, which begins as the weights begin. Each rank holds and moves the averages of
// the part whose optimizer state it has, without any communication. Checkpoints hold them as
// "average.<name>" in files "average"; a run that goes on continues them to the bit. Not thread-safe: one
// trainer.
#pragma once

#include "checkpoint/state.h"
#include "optim/optimizer.h"

namespace longhaul::train {

class AveragedWeights final : public checkpoint::StateProvider {
 public:
  // decay: 0 makes nothing. Both must outlive this object.
  AveragedWeights(const model::ParameterSet& parameters, const optim::Optimizer& optimizer, double decay);
  bool on() const { return decay_ > 0; }
  void begin();       // takes the weights as they are
  void after_step();  // that has changed the weights
  std::vector<checkpoint::StateEntry> tensors() override;

 private:
  struct Average {
    Tensor master;  // this rank's share
    optim::StateTensor own;
  };
  double decay_;
  std::vector<Average> averages_;
};

}  // namespace longhaul::train
