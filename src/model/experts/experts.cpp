#include "model/experts/experts.h"

#include <fmt/format.h>

#include "base/error.h"
#include "kernels/activation/op.h"
#include "kernels/group_linear/op.h"
#include "kernels/linear/feed_forward.h"
#include "kernels/linear/int8_feed_forward.h"
#include "model/experts/expert_capacity.h"
#include "model/experts/router_forced.h"
#include "model/experts/router_jitter.h"
#include "model/experts/router_quantile.h"
#include "model/experts/router_sinkhorn.h"
#include "model/spiking_product.h"
#include "tensor/to_tensor.h"

namespace longhaul::model {

Experts::Experts(const recipe::ModelConfig& config, const BlockPlace& place, ParameterSet& parameters)
    : ChannelMixer(place.name + ".experts"),
      experts_(config.experts),
      per_token_(config.experts_per_token),
      options_(config.router),
      balance_(config, config.auxiliary_loss, config.router.balance_of),
      balance_of_sequences_(config, config.router.sequence_loss, recipe::BalanceOf::kSequence),
      z_coefficient_(config.z_loss),
      spiking_(parameters.spiking()) {
  const std::string router = place.name + ".router.weight";
  router_ = &parameters.add_stacked(router, {router});
  const std::string bias = place.name + ".router.bias";
  if (options_.biased()) bias_ = &parameters.add_stacked(bias, {bias});
  std::vector<std::vector<std::string>> gate_up, down;
  for (int64_t e = 0; e < experts_; ++e) {
    const std::string expert = fmt::format("{}.{}", name(), e);
    gate_up.push_back({expert + ".gate.weight", expert + ".up.weight"});
    down.push_back({expert + ".down.weight"});
  }
  gate_up_ = &parameters.add_experts(name() + ".gate_up.weight", gate_up);
  down_ = &parameters.add_experts(name() + ".down.weight", down);
  of_gate_up_.emplace(parameters, *gate_up_, gate_up);
  of_down_.emplace(parameters, *down_, down);
  if (config.shared_experts == 0) return;
  shared_ = std::make_unique<DenseChannel>(place.name + ".shared", config.channel, config.bias, parameters);
  if (config.shared_gate)
    shared_gate_.emplace(parameters, place.name, "shared_gate", std::vector<std::string>{"shared_gate"},
                         config.bias);
}

kernels::Routing Experts::routing_of(Context& context, const Tensor& hidden,
                                     const layout::SequenceView& view) const {
  const Tensor sequence_offsets =
      view.own_row_offsets.size() < 3 ? Tensor() : to_tensor(view.own_row_offsets);
  using Score = kernels::RouterOptions::Score;
  static constexpr Score kScores[] = {Score::kSoftmax, Score::kSigmoid, Score::kSqrtSoftplus};
  kernels::RouterOptions how{.score = kScores[static_cast<size_t>(options_.score)],
                             .normalised = options_.normalised,
                             .scale = options_.scale,
                             .groups = options_.groups,
                             .groups_per_token = options_.groups_per_token,
                             .bias_e = options_.bias_rate > 0 ? bias_->value.detach() : Tensor(),
                             .statistics = context.training};
  if (context.training && options_.choice == recipe::RouterChoice::kSinkhorn)
    how.judged = [&](const Tensor& logits) { return balanced_by_sinkhorn(logits, view, context.ops); };
  if (context.training && options_.choice == recipe::RouterChoice::kRandom) {
    how.judged = [&](const Tensor& logits) {
      const RandomStream numbers(context.seed, fmt::format("router_choice/{}/{}", name(), context.step));
      return judged_at_random(logits, numbers, view, context.first_sequence(view));
    };
  }
  if (context.training && options_.choice == recipe::RouterChoice::kRoundRobin)
    how.judged = [&](const Tensor& logits) { return judged_in_turn(logits, per_token_, view); };
  if (options_.choice == recipe::RouterChoice::kQuantile) {
    how.judged = [&](const Tensor& logits) {
      const Tensor bias = bias_->value.detach();
      if (context.training)
        context.choices_of_routers[bias_->name] = quantiles_of(logits, bias, per_token_, view, context.ops);
      return logits.to(at::kDouble).add(bias);
    };
  }
  if (context.training && options_.choice == recipe::RouterChoice::kBiased) {
    how.judged = [&](const Tensor& logits) {
      const RandomStream numbers(context.seed, fmt::format("router_choice/{}/{}", name(), context.step));
      // the same in every step
      const RandomStream biases(context.seed, fmt::format("router_choice_biases/{}", name()));
      return judged_with_biases(logits, numbers, biases, options_.choice_std, view,
                                context.first_sequence(view));
    };
  }
  if (context.replayed_routes != nullptr) how.choice_tk = replayed(*context.replayed_routes);
  const bool jitters = context.training && options_.jitter > 0;
  const auto stream = [&] {
    return RandomStream(context.seed, fmt::format("router_jitter/{}/{}", name(), context.step));
  };
  const Tensor input =
      jitters ? jittered(hidden, options_.jitter, stream(), view, context.first_sequence(view)) : hidden;
  kernels::Routing routing =
      kernels::route(input, router_->value, per_token_, router_->sink(), sequence_offsets, how);
  if (context.recorded_routes != nullptr) (*context.recorded_routes)[name()] = routing.choice_tk;
  if (context.recorded_weights != nullptr) (*context.recorded_weights)[name()] = routing.weight_tk.detach();
  return routing;
}

Tensor Experts::replayed(const Routes& routes) const {
  const auto found = routes.find(name());
  LONGHAUL_ASSERT(found != routes.end(), "the routes that are replayed have none of {}", name());
  return found->second;
}

ExpertChoices Experts::choices_of(Context& context, const kernels::Routing& routing,
                                  const layout::SequenceView& view) const {
  ExpertChoices choices{routing.choice_tk, routing.weight_tk, experts_};
  if (!context.training) return choices;
  if (options_.bias_rate > 0) context.choices_of_routers[bias_->name] = routing.count_se.sum(0);
  if (options_.capacity_factor > 0) {
    const KeptChoices kept =
        within_capacity(routing.choice_tk, routing.weight_tk, experts_, options_, view, context.ops);
    choices.choice_tk = kept.choice_tk;
    choices.every = false;
    choices.most_rows = kept.most_rows, choices.most_tokens = kept.most_tokens;
    context.statistics[kDroppedShare][name()] = kept.dropped_share;
  }
  return choices;
}

Summand Experts::summand(Context& context, BlockInput& input, const layout::SequenceView& view) {
  const Tensor& hidden = input.own_td;
  const kernels::Routing routing = routing_of(context, hidden, view);
  const auto product = [&](const Tensor& rows, const std::vector<int64_t>& per_expert,
                           const std::shared_ptr<kernels::Postponed>& later) {
    if (gate_up_->int8)
      return kernels::int8_grouped_feed_forward(rows, per_expert, *gate_up_->int8, *down_->int8);
    const auto weights = [&](Parameter& parameter) {
      return kernels::LinearWeights{.weight = parameter.value,
                                    .sinks = {.weight = parameter.sink().into(later)},
                                    .kept = parameter.kept()};
    };
    if (spiking_ != nullptr) {
      const auto made = [&](Parameter& parameter, const Tensor& x) {
        return spiking_grouped_product(*spiking_, x, per_expert, parameter, weights(parameter));
      };
      return made(*down_, kernels::swiglu(made(*gate_up_, rows)));
    }
    if (gate_up_->groups) {
      return kernels::group_grouped_linear(
          kernels::swiglu(kernels::group_grouped_linear(rows, per_expert, *gate_up_->groups)), per_expert,
          *down_->groups);
    }
    if (of_gate_up_->any() || of_down_->any()) {
      const auto made = [&](const ExpertAdapters& adapters, Parameter& parameter, const Tensor& x) {
        if (adapters.any()) return adapters.product(x, per_expert, weights(parameter), later);
        return kernels::grouped_linear(x, per_expert, parameter.value, parameter.sink().into(later),
                                       parameter.kept());
      };
      return made(*of_down_, *down_, kernels::swiglu(made(*of_gate_up_, *gate_up_, rows)));
    }
    return kernels::grouped_feed_forward(rows, per_expert, kernels::Activation::kSwiglu, weights(*gate_up_),
                                         weights(*down_));
  };
  Tensor output = context.ops.experts(hidden, choices_of(context, routing, view), product);
  if (shared_ != nullptr) output = output + of_shared(context, input, view);
  return {.own_td = context.training ? with_losses(context, output, routing) : output};
}

Tensor Experts::of_shared(Context& context, BlockInput& input, const layout::SequenceView& view) const {
  const Tensor made = context.ops.summed(input, {shared_->summand(context, input, view)}, view);
  if (!shared_gate_) return made;
  // In fp64, because LibTorch's functions round an element by where its threads cut all rows; it is one
  // number a token.
  return made * shared_gate_->forward(input.own_td).to(at::kDouble).sigmoid().to(made.scalar_type());
}

Tensor Experts::with_losses(Context& context, const Tensor& output, const kernels::Routing& routing) const {
  const Tensor& probability = routing.probability_sum_se;
  const Tensor counts = context.ops.sum_statistics(routing.count_se.to(probability.scalar_type()));
  const Tensor all = counts.sum(0);
  context.statistics[kBusiestOverMean][name()] = all.amax().div(all.mean().clamp_min(1e-9));

  Tensor loss;
  const auto add = [&](const Tensor& each) { loss = loss.defined() ? loss + each : each; };
  for (const RouterBalance* balance : {&balance_, &balance_of_sequences_}) {
    if (balance->wanted() && !balance->joint()) add(balance->loss(context, name(), counts, probability));
  }
  if (z_coefficient_ > 0) add(routing.log_sum_square.mul(z_coefficient_));
  Tensor joined = loss.defined() ? context.join_auxiliary_loss(name(), output, loss) : output;
  for (const RouterBalance* balance : {&balance_, &balance_of_sequences_}) {
    if (balance->wanted() && balance->joint())
      joined = balance->join(context, name(), joined, counts, probability);
  }
  return joined;
}

}  // namespace longhaul::model
