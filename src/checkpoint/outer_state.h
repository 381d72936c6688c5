// OuterState: an optimizer under an outer loop (optim/outer/outer.h) as a provider of training state, in the place of OptimizerState. The weights of
// the checkpoint, under the names of the logical tensors, are those that all workers agree on, so that any reader has a model. What each worker has
// of its own in the middle of a round has one more dimension in front, the worker:
//
//   optimizer.master.<tensor>, optimizer.<kind>.<tensor>   [workers, …]   its weights, and the states of its optimizer
//   optimizer.worker                                       [workers, 3]   numbers of its round, and the steps its optimizer has taken
//   optimizer.outer_first_step.<tensor>                    [workers, 1]   where each tensor has a staleness gap of its own, and of all workers
//   optimizer.outer_first_steps.<tensor>, optimizer.outer_movement.<tensor>   [1]
//   optimizer.outer_momentum.<tensor>, optimizer.outer_sums.<tensor>      all workers': the sums are of the round that is on its way, which has
//                                                                         come (OuterLoop::settle) before this is saved
//
// A run may go on with another number of workers: worker w then takes the optimizer states of the saved worker w mod their number, all begin a round
// anew at the weights that were agreed on, and what was on its way is dropped.
#pragma once

#include "checkpoint/state.h"
#include "optim/outer/outer.h"

namespace longhaul::checkpoint {

class OuterState final : public StateProvider {
 public:
  OuterState(optim::Optimizer& optimizer, optim::OuterLoop& loop, const parallel::Ranks& ranks);
  std::vector<StateEntry> tensors() override;
  nlohmann::json facts() override;
  void restore(const SavedFacts& facts) override;

  void expect(const nlohmann::json& state);  // before this checkpoint's tensors are read: of how many workers they are
  void begin_anew() { loop_.begin_anew(); }  // behind fresh states: only weights were read

 private:
  StateEntry of_worker(const optim::StateTensor& tensor) const;

  optim::Optimizer& optimizer_;
  optim::OuterLoop& loop_;
  const parallel::Ranks& ranks_;
  int64_t workers_, worker_;  // as the tensors are written, or read
  Tensor numbers_;            // [1, 3] fp64
};

}  // namespace longhaul::checkpoint
