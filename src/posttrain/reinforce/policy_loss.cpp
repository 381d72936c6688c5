#include "posttrain/reinforce/policy_loss.h"

#include <cmath>

#include "base/error.h"

namespace longhaul::posttrain {
namespace {

constexpr double kWidest = 20;  // of differences of log-probabilities
constexpr double kMostKl = 10;

Tensor ratio_of(const Tensor& difference_t) { return difference_t.clamp(-kWidest, kWidest).exp(); }

// Sums over the tokens of each answer, at each of them.
Tensor summed_over_answers(const Tensor& value_t, const Tensor& answer_t) {
  if (value_t.numel() == 0) return value_t;
  const int64_t answers = answer_t.max().item<int64_t>() + 1;
  return at::zeros({answers}, value_t.options()).index_add(0, answer_t, value_t).index_select(0, answer_t);
}

Tensor tokens_of_answers(const Tensor& answer_t) {
  return summed_over_answers(at::ones({answer_t.numel()}, at::kDouble), answer_t);
}

// max(−A r, −A clip(r)) with its gradient by log r.
TokenLosses clipped(const Tensor& ratio_t, const Tensor& advantage_t, const PolicyLossOptions& options) {
  const Tensor gains_t = advantage_t > 0, loses_t = advantage_t < 0;
  const Tensor free_t = -advantage_t * ratio_t;
  const Tensor bound_t = -advantage_t * ratio_t.clamp(1 - options.clip_low, 1 + options.clip_high);
  TokenLosses losses;
  losses.ratio_t = ratio_t;
  losses.loss_t = at::maximum(free_t, bound_t);
  losses.clipped_high_t = gains_t & (ratio_t > 1 + options.clip_high);
  losses.clipped_low_t = loses_t & (ratio_t < 1 - options.clip_low);
  if (options.dual_clip > 0) {
    const Tensor beyond_t = loses_t & (ratio_t > options.dual_clip);
    losses.loss_t =
        at::where(loses_t, at::minimum(losses.loss_t, -advantage_t * options.dual_clip), losses.loss_t);
    losses.clipped_high_t = losses.clipped_high_t | beyond_t;
  }
  losses.gradient_t = free_t.masked_fill(losses.clipped_high_t | losses.clipped_low_t, 0);
  return losses;
}

TokenLosses cispo(const PolicyTokens& tokens, const PolicyLossOptions& options) {
  TokenLosses losses;
  losses.ratio_t = ratio_of(tokens.l_t - tokens.old_t);
  const double least = std::max(0.0, 1 - options.clip_low);
  const Tensor weight_t = losses.ratio_t.clamp(least, 1 + options.clip_high);
  losses.gradient_t = -weight_t * tokens.advantage_t;
  losses.loss_t = losses.gradient_t * tokens.l_t;
  losses.clipped_high_t = losses.ratio_t > 1 + options.clip_high;
  losses.clipped_low_t = losses.ratio_t < least;
  return losses;
}

TokenLosses gspo(const PolicyTokens& tokens, const PolicyLossOptions& options) {
  const Tensor mean_t =
      summed_over_answers(tokens.l_t - tokens.old_t, tokens.answer_t) / tokens_of_answers(tokens.answer_t);
  return clipped(ratio_of(mean_t), tokens.advantage_t, options);
}

// The loss of an answer moves with each of its log-probabilities as with their sum: the gradient of a token,
// which weighs 1 / tokens, is that of the sum times the tokens.
TokenLosses ecpo(const PolicyTokens& tokens, const PolicyLossOptions& options) {
  const Tensor l_t = summed_over_answers(tokens.l_t, tokens.answer_t);
  const Tensor old_t = summed_over_answers(tokens.old_t, tokens.answer_t);
  const Tensor kept_t = at::maximum(old_t, l_t - std::log(1 + options.clip_high + options.early));
  TokenLosses losses = clipped(ratio_of(l_t - kept_t), tokens.advantage_t, options);
  losses.gradient_t = losses.gradient_t * tokens_of_answers(tokens.answer_t);
  return losses;
}

TokenLosses gbpo(const PolicyTokens& tokens) {
  const Tensor probability_t = tokens.l_t.exp(), old_t = tokens.old_t.exp();
  const Tensor gains_t = tokens.advantage_t >= 0;
  TokenLosses losses;
  losses.ratio_t = probability_t / at::where(gains_t, at::maximum(old_t, probability_t),
                                             at::maximum(old_t, 1 - probability_t));
  losses.loss_t = -tokens.advantage_t * losses.ratio_t;
  losses.gradient_t = losses.loss_t;
  // Nothing is cut off: these are where the denominator is not π_old.
  losses.clipped_high_t = gains_t & (probability_t > old_t);
  losses.clipped_low_t = ~gains_t & (1 - probability_t > old_t);
  return losses;
}

}  // namespace

TokenLosses policy_losses(const PolicyTokens& tokens, const PolicyLossOptions& options) {
  for (const Tensor* each : {&tokens.l_t, &tokens.old_t, &tokens.advantage_t}) {
    LONGHAUL_ASSERT(each->scalar_type() == at::kDouble && each->sizes() == tokens.l_t.sizes(),
                    "fp64, one of each token");
  }
  switch (options.loss) {
    case PolicyLoss::kClip:
      return clipped(ratio_of(tokens.l_t - tokens.old_t), tokens.advantage_t, options);
    case PolicyLoss::kCispo:
      return cispo(tokens, options);
    case PolicyLoss::kGspo:
      return gspo(tokens, options);
    case PolicyLoss::kEcpo:
      return ecpo(tokens, options);
    case PolicyLoss::kGbpo:
      return gbpo(tokens);
  }
  LONGHAUL_ASSERT(false, "a loss without a formula");
}

TokenKl kl_losses(const Tensor& l_t, const Tensor& reference_t, KlEstimator estimator) {
  const Tensor unbounded_t = reference_t - l_t, d_t = unbounded_t.clamp(-kWidest, kWidest);
  const Tensor inside_t = unbounded_t.abs() <= kWidest;
  TokenKl kl;
  if (estimator == KlEstimator::kK1) {
    kl.kl_t = -d_t;
    kl.gradient_t = at::ones_like(d_t);
  } else if (estimator == KlEstimator::kK2) {
    kl.kl_t = d_t.square() / 2;
    kl.gradient_t = -d_t;
  } else {
    const Tensor unbounded_kl_t = d_t.exp() - d_t - 1;
    kl.kl_t = unbounded_kl_t.clamp_max(kMostKl);
    kl.gradient_t = (1 - d_t.exp()).masked_fill(unbounded_kl_t > kMostKl, 0);
  }
  kl.gradient_t = kl.gradient_t.masked_fill(~inside_t, 0);
  return kl;
}

Weights token_weights(Aggregation aggregation, int64_t tokens, int64_t longest) {
  const auto count = static_cast<double>(tokens);
  if (aggregation == Aggregation::kTokens) return {1, count};
  if (aggregation == Aggregation::kConstant) return {1 / static_cast<double>(longest), 1};
  return {tokens > 0 ? 1 / count : 0, 1};
}

Tensor with_gradient(const Tensor& value_t, const Tensor& gradient_t, const Tensor& l_t) {
  return value_t.detach() + gradient_t.detach() * (l_t - l_t.detach());
}

ValueLosses value_losses(const Tensor& value_t, const Tensor& old_t, const Tensor& return_t, double clip) {
  const Tensor near_t = at::minimum(at::maximum(value_t, old_t - clip), old_t + clip);
  const Tensor free_t = (value_t - return_t).square(), bound_t = (near_t - return_t).square();
  const Tensor moves_t = (free_t >= bound_t) | (near_t == value_t);
  return {at::maximum(free_t, bound_t) / 2, (value_t - return_t).masked_fill(~moves_t, 0)};
}

}  // namespace longhaul::posttrain
