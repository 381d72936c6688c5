// Mixture of experts (docs/sources/minimax-01.md §2.5): an fp32 router chooses k experts a token; their
// weights are the softmax over all experts, renormalised over the chosen ones, or what model.router_… says.
// Shared experts, one dense mixer of all their widths, are added for every token, times σ(w · token) where
// there is such a w (Qwen2-MoE, DeepSeekMoE arXiv 2401.06066). With a capacity an expert drops what it has no
// room for, in training (expert_capacity.h); a bias may steer the choice (router_bias.h). Auxiliary losses,
// each a sum over tokens as the main loss is, of the choices before anything is dropped:
//
//   balance: c · E · Σ_e f_e · Σ_t p_te of each set of tokens that is judged together, with f_e = share of
//     its choices that went to e (a
//            constant), p_te = router probability; or in another published form (router_balance.h)
//   of the batch: f of all tokens of the step (arXiv 2501.11873): at
//            once, or of the micro-batches so far: that of the m-th takes f of the choices of the first m on
//            all replicas, begun anew in every step, as there and in Megatron-LM's global form
//            (docs/sources/moe-parallel-folding.md §4.1)
//   z:       Σ_t c_z · logsumexp(router logits of t)²
//            (ST-MoE, arXiv 2202.08906)
//
// A sequence is a row of the batch (layout/sequence.h), whatever documents are packed into it: balance is
// asked of every sequence by itself, as in DeepSeek-V3 (arXiv 2412.19437 §2.1.2), where GShard and Switch
// (2006.16668, 2101.03961) ask it of whatever a device happens to hold at once. So neither micro-batches nor
// ranks change the loss (arXiv 2501.11873 on what they change otherwise). Nor do they that of the batch at
// once; so far: what train.micro_batch · replicas sequences are seen together counts, tp, cp, ep, etp and
// stages do not.
//
// In training the router's input may be jittered (router_jitter.h), and the choice balanced by Sinkhorn's
// iteration (router_sinkhorn.h). It may go by thresholds that follow the tokens (router_quantile.h), or be
// forced, for benchmarks (router_forced.h). What was chosen may be recorded, and replayed (routes.h).
#pragma once

#include <memory>
#include <optional>

#include "kernels/experts/op.h"
#include "model/experts/expert_adapters.h"
#include "model/experts/router_balance.h"
#include "model/linear.h"
#include "model/mixers/dense_channel.h"
#include "model/module.h"
#include "recipe/architecture/model_config.h"

namespace longhaul::model {

class Experts final : public ChannelMixer {
 public:
  Experts(const recipe::ModelConfig& config, const BlockPlace& place, ParameterSet& parameters);
  Summand summand(Context& context, BlockInput& input, const layout::SequenceView& view) override;

 private:
  kernels::Routing routing_of(Context& context, const Tensor& hidden_td,
                              const layout::SequenceView& view) const;
  Tensor replayed(const Routes& routes) const;
  ExpertChoices choices_of(Context& context, const kernels::Routing& routing,
                           const layout::SequenceView& view) const;
  Tensor of_shared(Context& context, BlockInput& input, const layout::SequenceView& view) const;
  Tensor with_losses(Context& context, const Tensor& output_td, const kernels::Routing& routing) const;

  int64_t experts_, per_token_;
  recipe::RouterOptions options_;
  RouterBalance balance_, balance_of_sequences_;  // either may be unwanted
  double z_coefficient_;
  std::shared_ptr<Spiking> spiking_;  // null: experts read numbers
  Parameter* router_;
  Parameter* bias_ = nullptr;  // of its choice; null: none
  Parameter* gate_up_;
  Parameter* down_;
  std::optional<ExpertAdapters> of_gate_up_, of_down_;
  std::unique_ptr<DenseChannel> shared_;  // null: none
  std::optional<Linear> shared_gate_;
};

}  // namespace longhaul::model
