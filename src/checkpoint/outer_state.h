// OuterState: provides the training state of an optimizer under an outer loop (optim/outer/outer.h); it
// replaces OptimizerState. The weights of the checkpoint, under the names of the logical tensors, are those
// that all workers agree on, so that any reader gets a model. State that differs between workers in the
// middle of a round has one more dimension in front, the worker:
//
//   optimizer.master.<tensor>, optimizer.<kind>.<tensor>   [workers, …]   its weights, and the states of
//                                                          its optimizer
//   optimizer.worker                                       [workers, 3]   numbers of its round, and the
//                                                          steps its optimizer has taken
//   optimizer.outer_first_step.<tensor>                    [workers, 1]   only where each tensor has a
//                                                          staleness gap of its own
//   optimizer.outer_first_steps.<tensor>, optimizer.outer_movement.<tensor>   [1]   the same, but shared by
//                                                                             all workers
//   optimizer.outer_momentum.<tensor>, optimizer.outer_sums.<tensor>      shared by all workers; the sums
//                                                                         are those of the round being
//                                                                         exchanged, which have arrived
//                                                                         (OuterLoop::settle) before they
//                                                                         are saved
//
// A run may resume with another number of workers. Worker w then takes the optimizer states of saved worker
// (w mod the saved number), all workers begin a new round from the agreed weights, and the exchange that
// was in progress is dropped.
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

  // Call before this checkpoint's tensors are read: tells how many workers they have.
  void expect(const nlohmann::json& state);
  void begin_anew() { loop_.begin_anew(); }  // after fresh optimizer states: only weights were read

 private:
  StateEntry of_worker(const optim::StateTensor& tensor) const;

  optim::Optimizer& optimizer_;
  optim::OuterLoop& loop_;
  const parallel::Ranks& ranks_;
  int64_t workers_, worker_;  // of the tensors that are written or read
  Tensor numbers_;            // [1, 3] fp64
};

}  // namespace longhaul::checkpoint
