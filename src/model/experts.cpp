#include "model/experts.h"

#include <fmt/format.h>

#include "kernels/linear/feed_forward.h"
#include "tensor/to_tensor.h"

namespace longhaul::model {

Experts::Experts(const recipe::ModelConfig& config, int64_t layer, ParameterSet& parameters)
    : ChannelMixer(fmt::format("layers.{}.experts", layer)),
      experts_(config.experts),
      per_token_(config.experts_per_token),
      balance_coefficient_(config.auxiliary_loss),
      z_coefficient_(config.z_loss) {
  const std::string router = fmt::format("layers.{}.router.weight", layer);
  router_ = &parameters.add_stacked(router, {router});
  std::vector<std::vector<std::string>> gate_up, down;
  for (int64_t e = 0; e < experts_; ++e) {
    const std::string expert = fmt::format("{}.{}", name(), e);
    gate_up.push_back({expert + ".gate.weight", expert + ".up.weight"});
    down.push_back({expert + ".down.weight"});
  }
  gate_up_ = &parameters.add_experts(name() + ".gate_up.weight", gate_up);
  down_ = &parameters.add_experts(name() + ".down.weight", down);
}

Tensor Experts::forward(Context& context, const Tensor& hidden, const layout::SequenceView& view) {
  const Tensor sequence_offsets = view.own_row_offsets.size() < 3 ? Tensor() : to_tensor(view.own_row_offsets);
  const kernels::Routing routing = kernels::route(hidden, router_->value, per_token_, router_->sink(), sequence_offsets);
  const auto product = [&](const Tensor& rows, const std::vector<int64_t>& per_expert, const std::shared_ptr<kernels::Postponed>& later) {
    const auto weights = [&](Parameter& parameter) {
      return kernels::LinearWeights{.weight = parameter.value, .sinks = {.weight = parameter.sink().into(later)}, .kept = parameter.kept()};
    };
    return kernels::grouped_feed_forward(rows, per_expert, kernels::Activation::kSwiglu, weights(*gate_up_), weights(*down_));
  };
  const Tensor output = context.ops.experts(hidden, {routing.choice_tk, routing.weight_tk, experts_}, product);
  return context.training ? with_losses(context, output, routing) : output;
}

Tensor Experts::with_losses(Context& context, const Tensor& output, const kernels::Routing& routing) const {
  const Tensor& probability = routing.probability_sum_se;
  const Tensor counts = context.ops.sum_statistics(routing.count_se.to(probability.scalar_type()));
  const Tensor all = counts.sum(0), share = all.div(all.sum().clamp_min(1)).amax();
  Tensor& busiest = context.statistics["router/busiest_expert_share"];
  busiest = busiest.defined() ? at::maximum(busiest, share) : share;

  Tensor loss;
  if (balance_coefficient_ > 0) {
    // The tokens of a sequence cancel against the mean in P. Clamped: an empty one has no choices.
    const Tensor share_se = counts.div(counts.sum(1, /*keepdim=*/true).clamp_min(1));
    loss = probability.mul(share_se).sum().mul(balance_coefficient_ * static_cast<double>(experts_));
  }
  if (z_coefficient_ > 0) {
    const Tensor z = routing.log_sum_square.mul(z_coefficient_);
    loss = loss.defined() ? loss + z : z;
  }
  return loss.defined() ? context.join_auxiliary_loss(name(), output, loss) : output;
}

}  // namespace longhaul::model
