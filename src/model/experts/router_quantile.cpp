#include "model/experts/router_quantile.h"

#include "base/error.h"
#include "model/row_sharing.h"
#include "tensor/to_tensor.h"

namespace longhaul::model {
namespace {

constexpr double kUnit = 0x1p-32, kLargest = 1024;

// θ of one sequence. The n-th largest of m is the (m + 1 − n)-th smallest.
Tensor thresholds(const Tensor& logits, const Tensor& bias, int64_t per_token) {
  const int64_t tokens = logits.size(0), experts = logits.size(1);
  const Tensor admitted = std::get<0>(logits.add(bias).kthvalue(experts - per_token, 1, /*keepdim=*/true));
  return std::get<0>(logits.sub(admitted).kthvalue(tokens - tokens * per_token / experts, 0));
}

}  // namespace

Tensor quantiles_of(const Tensor& logits, const Tensor& bias, int64_t per_token,
                    const layout::SequenceView& view, ParallelOps& ops) {
  const at::NoGradGuard no_gradient;
  const Tensor sums = at::zeros({logits.size(1) + 1}, logits.options().dtype(at::kLong).requires_grad(false));
  if (view.layout.tokens() == 0) return sums;
  const Parts parts = parts_of(sequence_lengths(view.layout), 1);
  const bool whole = sharing_of(view, parts).whole;
  const Tensor row = whole ? logits : of_the_row(logits, view, ops);
  if (logits.is_meta()) return sums;

  const Tensor part = to_tensor(parts.of_token, logits.device());
  const Tensor part_t = whole ? part.index_select(0, own_tokens_of(view, logits.device())) : part;
  const Tensor wide_bias = bias.detach().to(at::kDouble);
  for (int64_t p = 0; p < std::ssize(parts.tokens); ++p) {
    const Tensor tokens = part_t.eq(p).nonzero().squeeze(1);
    if (tokens.numel() == 0) continue;
    const Tensor theta = thresholds(row.index_select(0, tokens).to(at::kDouble), wide_bias, per_token);
    sums.narrow(0, 0, theta.size(0)).add_(theta.clamp(-kLargest, kLargest).div(kUnit).round().to(at::kLong));
    sums.select(0, theta.size(0)).add_(1);
  }
  return sums;
}

void move_router_thresholds(ParameterSet& parameters, const std::map<std::string, Tensor>& sums,
                            double memory) {
  const at::NoGradGuard no_gradient;
  for (const auto& [name, sum] : sums) {
    Parameter* const bias = parameters.holder_of(name);
    LONGHAUL_ASSERT(bias != nullptr, "no router's bias is called {}", name);
    if (bias->parts.at(0).spec.frozen) continue;
    const int64_t experts = sum.size(0) - 1;
    const Tensor theta =
        sum.narrow(0, 0, experts).to(at::kDouble).div(sum.select(0, experts).clamp_min(1)).mul(kUnit);
    // This rank's share alone, as in move_router_biases(). What is added sums to 0, as b does.
    const Tensor asked = theta.mean().sub(theta).narrow(0, bias->own.begin, bias->own.length);
    bias->own_value.mul_(memory).add_(asked.to(bias->own_value.scalar_type()), 1 - memory);
    bias->written();
  }
}

}  // namespace longhaul::model
