#include "model/experts/router_balance.h"

#include "kernels/differentiable.h"

namespace longhaul::model {
namespace {

using OfRouters = std::map<std::string, Context::ChoicesSoFar::Judged>;

// Shares of the choices, which sum to one for each row. Clamped: a sequence without tokens has no choices.
Tensor shares(const Tensor& count) { return count.div(count.sum(1, /*keepdim=*/true).clamp_min(1)); }

Tensor joint_shares(const OfRouters& routers) {
  Tensor sum;
  for (const auto& [block, judged] : routers) sum = sum.defined() ? sum + judged.count_se : judged.count_se;
  return shares(sum);
}

}  // namespace

RouterBalance::RouterBalance(const recipe::ModelConfig& config, double coefficient, recipe::BalanceOf of)
    : factor_(coefficient * config.balance_factor(config.router.balance_form)),
      form_(config.router.balance_form),
      of_(of),
      routers_(config.routers()) {}

// How often the experts were chosen by what is judged together: [sequences, experts], or [1, experts] of a
// batch. Run again it is what it was, though more may have come meanwhile.
Tensor RouterBalance::judged_counts(Context& context, const std::string& block,
                                    const Tensor& count_se) const {
  if (of_ == recipe::BalanceOf::kSequence) return count_se;
  Context::ChoicesSoFar& so_far = *context.choices_so_far;
  Tensor& judged = so_far.judged_e[{block, context.micro_batch}];
  if (judged.defined()) return judged;
  const Tensor count =
      context.ops.of_replicas(count_se.to(at::kDouble).sum(0, /*keepdim=*/true)).all.sum(0, /*keepdim=*/true);
  Tensor& sum = so_far.count_e[block];
  sum = sum.defined() ? sum + count : count;
  return judged = sum;
}

Tensor RouterBalance::loss(Context& context, const std::string& block, const Tensor& count_se,
                           const Tensor& probability_sum_se) const {
  const Tensor share = shares(judged_counts(context, block, count_se)).to(probability_sum_se.scalar_type());
  return probability_sum_se.mul(share).sum().mul(factor_);
}

Tensor RouterBalance::join(Context& context, const std::string& block, const Tensor& activation,
                           const Tensor& count_se, const Tensor& probability_sum_se) const {
  const auto so_far = context.choices_so_far;
  OfRouters& routers = so_far->of_routers[{context.micro_batch, of_}];
  routers[block] = {judged_counts(context, block, count_se).to(probability_sum_se.scalar_type()),
                    probability_sum_se.detach()};
  if (std::ssize(routers) == routers_) {  // the last of them
    Tensor probability;
    for (const auto& [each, judged] : routers) {
      probability =
          probability.defined() ? probability + judged.probability_sum_se : judged.probability_sum_se;
    }
    context.tell_auxiliary_loss(block, joint_shares(routers).mul(probability).sum().mul(factor_));
  }
  return kernels::differentiable(
      "join_router_balance", {activation, probability_sum_se}, [&]() -> kernels::Recorded {
        return {.results = {activation.view_as(activation)},
                .backward = [so_far, key = std::pair{context.micro_batch, of_},
                             factor = factor_ * context.auxiliary_scale,
                             sizes = probability_sum_se.sizes().vec()](const kernels::BackwardCall& call) {
                  const Tensor gradient =
                      joint_shares(so_far->of_routers.at(key)).mul(factor).expand(sizes).contiguous();
                  return std::vector<Tensor>{call.gradients[0], gradient};
                }};
      })[0];
}

}  // namespace longhaul::model
