// OuterGaps: the staleness gaps of CO2 where each logical tensor has one of its own (optim.outer_gap = per_tensor; docs/sources/co2.md §3):
//
//   Λ_p = 1 + |x_t - x_{t-1}|_p / (τ · first step of p)
//
// norms over the whole tensor, however it is cut over a worker's ranks; the first step of round t - 1, the mean over workers. All have the same Λ. It keeps what a
// worker has to remember for it between steps, and names it for checkpoints. One reduction over the ranks of a worker, for all tensors, a call.
#pragma once

#include <span>
#include <vector>

#include "optim/outer/outer_weights.h"
#include "optim/shard.h"
#include "parallel/ranks.h"

namespace longhaul::optim {

class OuterGaps {
 public:
  static constexpr std::string_view kOwn = "outer_first_step";  // the state that each worker has of its own

  // All must outlive it. `weights` were made by_tensor.
  OuterGaps(const OuterWeights& weights, const model::ParameterSet& parameters, const parallel::Ranks& ranks);

  // Collective, of a worker's ranks.
  void note_first_step();                     // behind the first step of a round
  void note_movement();                       // behind an update of the weights
  double mean(std::span<const double> gaps);  // over all tensors of the model

  std::vector<double> first_steps() const;  // of the round that goes on, by tensor: what goes with the sums
  // arrived: sums over workers of first_steps() of a round of `steps`; a tensor that never moved has the gap 1.
  std::vector<double> gaps(std::span<const double> arrived, double workers, int64_t steps) const;
  void forget();

  // Of every logical tensor a number [1]: kOwn, "outer_first_steps" (the sums that are on their way) and "outer_movement".
  std::vector<StateTensor> state() const;

 private:
  struct Held {
    const model::Parameter* parameter = nullptr;
    size_t part = 0;
    Partials::Place place;
  };
  void lengths(const std::vector<double>& squares, const Tensor& lengths);  // of whole tensors from this rank's part of their squares

  const OuterWeights& weights_;
  const parallel::Ranks& ranks_;
  std::vector<Held> held_;  // in the order of the weights' tensors
  Partials partials_;
  Tensor first_steps_, movements_;  // [tensors] fp64
};

}  // namespace longhaul::optim
