// Context: what every block needs besides its input: whether it trains, who crosses ranks, and where losses and statistics that are
// not the main loss go. One per forward pass of one micro-batch; owned by the Step.
//
// An auxiliary loss joins the graph at the activation beside which it was computed: there the backward pass meets it, with a gradient of
// 1, however often the forward pass of its block was run. So the gradient of the main loss must begin as 1 too (both are sums over tokens,
// and the Step divides the gradients), and nobody needs to collect it. What is kept here of it is its value, for reports.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/experts/routes.h"
#include "model/parallel_ops.h"
#include "model/rotary.h"
#include "recipe/mixers/experts.h"
#include "tensor/tensor.h"

namespace longhaul::model {

// Statistics of experts: the choices of the busiest one over their mean, and the share of choices that were dropped.
inline constexpr const char* kBusiestOverMean = "router/busiest_over_mean";
inline constexpr const char* kDroppedShare = "router/dropped_share";

struct Context {
  explicit Context(ParallelOps& parallel_ops, Precision run_precision = {}) : ops(parallel_ops), precision(run_precision) {}

  ParallelOps& ops;
  Precision precision;
  bool training = true;

  // Random key of dropout-like operators: streams are named from these. Micro-batches of a step are counted over all replicas, one replica after the
  // other, and have equally many sequences: that gives every sequence its number in the step.
  uint64_t seed = 0;
  int64_t step = 0;
  int64_t micro_batch = 0;
  int64_t first_sequence(const layout::SequenceView& view) const;  // number in the step of the first of this micro-batch's

  int64_t chunk = 0;  // which of its stages of the model a rank of a pipeline runs

  std::shared_ptr<RotaryTables> rotary = std::make_shared<RotaryTables>();

  // The activation, through which the backward pass of `loss` will run beside its own. `loss`: a scalar, coefficient inside, a sum over the
  // tokens. Recorded under the block's name: a block that is recomputed writes the same value again.
  Tensor join_auxiliary_loss(const std::string& block, const Tensor& activation, const Tensor& loss);
  // Reports a loss, or a further one of the block's, whose gradient comes another way.
  void tell_auxiliary_loss(const std::string& block, const Tensor& loss);
  std::map<std::string, Tensor> auxiliary_losses;                   // by block, without gradient; reading one waits for the device
  std::map<std::string, std::map<std::string, Tensor>> statistics;  // scalars by name and block; likewise
  // What moves the routers' biases, by their names, of this rank's tokens; likewise: int64 [experts] choices (router_bias.h), or quantiles (router_quantile.h).
  std::map<std::string, Tensor> choices_of_routers;

  // What a step's micro-batches have chosen so far, for routers whose balance loss judges more than one of them (model/experts/experts.h); kept by who runs
  // them, and new in every step.
  struct ChoicesSoFar {
    std::map<std::string, Tensor> count_e;                       // by block, of all replicas
    std::map<std::pair<std::string, int64_t>, Tensor> judged_e;  // by block and micro-batch: what its pass found, for when it is run again
    struct Judged {
      Tensor count_se, probability_sum_se;
    };
    // By micro-batch and whose choices are judged, then by block: of losses that join all routers.
    std::map<std::pair<int64_t, recipe::BalanceOf>, std::map<std::string, Judged>> of_routers;
  };
  std::shared_ptr<ChoicesSoFar> choices_so_far = std::make_shared<ChoicesSoFar>();

  // Which experts the routers send the tokens of this pass to (model/experts/routes.h): taken down in `recorded_routes`, given by `replayed_routes`, when set.
  std::shared_ptr<Routes> recorded_routes;
  std::shared_ptr<const Routes> replayed_routes;

  // When set, called with (block name, output): how the numeric guard finds the first bad layer.
  std::function<void(const std::string&, const Tensor&)> inspect;

  // For a block that is run again in the backward pass: the same names of random streams and the same tables; what it reports a second time
  // goes nowhere.
  Context again() const;
};

}  // namespace longhaul::model
