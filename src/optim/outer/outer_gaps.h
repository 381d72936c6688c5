// OuterGaps: the staleness gaps of CO2 when each logical tensor has one of its own (optim.outer_gap =
// per_tensor; docs/sources/co2.md §3):
//
//   Λ_p = 1 + |x_t - x_{t-1}|_p / (τ · first step of p)
//
// Norms are those of the whole tensor, however it is cut over a worker's ranks. The first step is that of
// round t - 1, as the mean over workers, so all workers have the same Λ. The object keeps what a worker
// must remember for it between steps, and names it for checkpoints. Each call makes one reduction over the
// ranks of a worker, for all tensors together.
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

  // All arguments must outlive the object. `weights` must have been made with by_tensor.
  OuterGaps(const OuterWeights& weights, const model::ParameterSet& parameters, const parallel::Ranks& ranks);

  // Collective calls of a worker's ranks.
  void note_first_step();                     // after the first step of a round
  void note_movement();                       // after an update of the weights
  double mean(std::span<const double> gaps);  // over all tensors of the model

  // The first steps of the current round, by tensor: the numbers that are sent with the sums.
  std::vector<double> first_steps() const;
  // arrived: sums over workers of first_steps() of a round of `steps`; a tensor that never moved has the gap
  // 1.
  std::vector<double> gaps(std::span<const double> arrived, double workers, int64_t steps) const;
  void forget();

  // One number [1] for every logical tensor: kOwn, "outer_first_steps" (of the sums in exchange) and
  // "outer_movement".
  std::vector<StateTensor> state() const;

 private:
  struct Held {
    const model::Parameter* parameter = nullptr;
    size_t part = 0;
    Partials::Place place;
  };
  // of whole tensors from this rank's part of their squares
  void lengths(const std::vector<double>& squares, const Tensor& lengths);

  const OuterWeights& weights_;
  const parallel::Ranks& ranks_;
  std::vector<Held> held_;  // in the order of the weights' tensors
  Partials partials_;
  Tensor first_steps_, movements_;  // [tensors] fp64
};

}  // namespace longhaul::optim
