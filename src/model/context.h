// Context: what every block needs besides its input: whether the model trains, the communication with other
// ranks, and the places where auxiliary losses and statistics are reported. There is one Context for each
// forward pass of one micro-batch; the Step owns it.
//
// An auxiliary loss joins the graph at the activation beside which it was computed. The backward pass meets
// it there with the gradient `auxiliary_scale`, however often the forward pass of its block was run. That is
// 1 where the main loss is a sum over tokens that weigh 1 and its gradient starts as 1: both are such sums
// then, and the Step divides the gradients. Nothing needs to collect auxiliary losses. The Context keeps
// their values only, for reports.
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
#include "recipe/channels/experts.h"
#include "tensor/tensor.h"

namespace longhaul::model {

struct Written;  // model/as_written.h

// Statistics of experts: the load of the busiest expert divided by the mean load, and the share of choices
// that were dropped.
inline constexpr const char* kBusiestOverMean = "router/busiest_over_mean";
inline constexpr const char* kDroppedShare = "router/dropped_share";

struct Context {
  explicit Context(ParallelOps& parallel_ops, Precision run_precision = {})
      : ops(parallel_ops), precision(run_precision) {}

  ParallelOps& ops;
  Precision precision;
  bool training = true;

  // The key of random numbers for operators like dropout. Micro-batches of a step are numbered over all
  // replicas, one replica after the other, and all have equally many sequences, so every sequence has a
  // number in the step.
  uint64_t seed = 0;
  int64_t step = 0;
  int64_t micro_batch = 0;
  // the number in the step of this micro-batch's first sequence
  int64_t first_sequence(const layout::SequenceView& view) const;

  int64_t chunk = 0;  // which of this rank's pipeline stages runs

  std::shared_ptr<RotaryTables> rotary = std::make_shared<RotaryTables>();

  // Returns the activation; its backward pass also runs that of `loss`. `loss`: a scalar that includes its
  // coefficient and is a sum over the tokens. Its value is recorded under the block's name; a block that is
  // recomputed records the same value again.
  Tensor join_auxiliary_loss(const std::string& block, const Tensor& activation, const Tensor& loss) {
    return join_weighted_loss(block, activation, loss, auxiliary_scale);
  }
  // The same, with this gradient: 1 for a loss whose tokens weigh as they do in the main loss.
  Tensor join_weighted_loss(const std::string& block, const Tensor& activation, const Tensor& loss,
                            double scale);
  // Reports a loss, or a further one of the block, whose gradient is handled elsewhere.
  void tell_auxiliary_loss(const std::string& block, const Tensor& loss);
  // The gradient of auxiliary losses, set before the forward pass: what a token of this micro-batch weighs in
  // the main loss, on average over all its tokens, times the gradient with which the backward pass begins.
  // The same on all ranks that share the micro-batch.
  double auxiliary_scale = 1;
  // By block, times the scale, as the Step divides it like the main loss; without gradient. Reading a value
  // waits for the device.
  std::map<std::string, Tensor> auxiliary_losses;
  std::map<std::string, std::map<std::string, Tensor>> statistics;  // scalars by name and block; likewise
  // What the updates of the routers' biases need from this rank's tokens, by the names of the biases: int64
  // [experts] counts of choices (router_bias.h), or quantiles (router_quantile.h).
  std::map<std::string, Tensor> choices_of_routers;

  // The choices of the step's micro-batches so far, for routers whose balance loss covers several of them
  // (model/experts/experts.h). The caller that runs the micro-batches keeps it, and makes a new one in every
  // step.
  struct ChoicesSoFar {
    std::map<std::string, Tensor> count_e;  // by block, of all replicas
    std::map<std::pair<std::string, int64_t>, Tensor>
        judged_e;  // by block and micro-batch: the result of its pass, in case the pass is run again
    struct Judged {
      Tensor count_se, probability_sum_se;
    };
    // For losses that join all routers: by micro-batch and by whose choices are judged, then by block.
    std::map<std::pair<int64_t, recipe::BalanceOf>, std::map<std::string, Judged>> of_routers;
  };
  std::shared_ptr<ChoicesSoFar> choices_so_far = std::make_shared<ChoicesSoFar>();

  // The experts to which the routers send the tokens of this pass (model/experts/routes.h): recorded in
  // `recorded_routes` and taken from `replayed_routes`, where set.
  std::shared_ptr<Routes> recorded_routes;
  std::shared_ptr<const Routes> replayed_routes;
  // Where set, it receives the weights of these experts, in the order of the choices: [own tokens, k].
  std::shared_ptr<Routes> recorded_weights;

  // Where set, sequence mixers have the values that an engine had when it wrote the documents of this pass
  // (model/as_written.h).
  std::shared_ptr<const Written> written;

  // Where set, it is called with (block name, output); the numeric guard uses it to find the first bad layer.
  std::function<void(const std::string&, const Tensor&)> inspect;

  // Where set, it is called after each of the model's layers with the layer's number, the residual stream
  // that leaves it as the next norm (the last one behind the last layer) has joined it, and what that norm
  // made of it; post-norm: twice the same tensor. What it returns takes the place of the latter, so that a
  // loss on the stream can join the graph there. One pipeline stage, and no decoding state.
  std::function<Tensor(int64_t layer, const Tensor& stream_td, const Tensor& normed_td)> after_layer;

  // A context for a block that is recomputed in the backward pass: it has the same random streams and tables,
  // and what the block reports a second time is discarded.
  Context again() const;
};

}  // namespace longhaul::model
