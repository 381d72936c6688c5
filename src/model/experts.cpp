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

Tensor Experts::forward(Context& context, const Tensor& hidden) {
  const kernels::Routing routing = kernels::route(hidden, router_->value, per_token_, router_->grad);
  const kernels::ExpertAssignment assignment = kernels::assign_experts(routing.choice_tk, experts_);

  const Tensor rows = kernels::permute_to_experts(hidden, assignment);
  const auto weights = [&](Parameter& parameter) {
    return kernels::LinearWeights{.weight = parameter.value,
                                  .sink = {.weight = parameter.grad, .postponed = context.postponed_weight_gradients},
                                  .kept = parameter.kept()};
  };
  const Tensor down =
      kernels::grouped_feed_forward(rows, assignment.rows_per_expert, kernels::Activation::kSwiglu, weights(*gate_up_), weights(*down_));
  if (context.training) add_losses(context, routing, assignment.rows_per_expert);
  return kernels::combine_experts(down, routing.weight_tk, assignment);
}

// c · E · Σ_e f_e P_e times the tokens: their number cancels against the mean in P.
void Experts::add_losses(Context& context, const kernels::Routing& routing, const std::vector<int64_t>& rows_per_expert) const {
  if (routing.choice_tk.size(0) == 0) return;
  const Tensor counts = context.ops.sum_statistics(
      to_tensor(rows_per_expert, routing.probability_sum_e.device()).to(routing.probability_sum_e.scalar_type()));
  const Tensor share = counts.div(counts.sum());
  if (balance_coefficient_ > 0) {
    context.auxiliary_losses.push_back(
        routing.probability_sum_e.mul(share).sum().mul(balance_coefficient_ * static_cast<double>(experts_)));
  }
  if (z_coefficient_ > 0) context.auxiliary_losses.push_back(routing.log_sum_square.mul(z_coefficient_));
  Tensor& busiest = context.statistics["router/busiest_expert_share"];
  busiest = busiest.defined() ? at::maximum(busiest, share.amax()) : share.amax();
}

}  // namespace longhaul::model
