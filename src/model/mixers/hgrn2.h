// HGRN2 (arXiv 2404.07904; docs/sources/linear-attention.md §5.2): gated linear recurrence, keys tied to the
// forget gate, which is bounded from below by what the layer's depth allows it to forget:
//
//   q = silu(h Wq)    λ = γ_l + (1 − γ_l) ⊙ σ(h Wf)    v = h Wv
//   S_t = diag(λ_t) S_{t−1} + (1 − λ_t)ᵀ v_t            o_t = q_t S_t
//   out = RMSNorm(concat_heads(o)) Wout
//
//   γ_l = Σ_{i=1..l} softmax(Γ)_i,  l = 0 … L−1, softmax over the L layers for each channel: γ_0 = 0, γ_l =
//                                   l/L where Γ is constant
//
// Per head d_k gates and d_v values; S is [d_k, d_v]. No positions, no output gate. Γ [L, heads · d_k] is one
// logical tensor of the whole model: every layer reads all rows of it, and all layers' gradients add up in
// it. Kept in fp32: bounds near 1 differ by less than bf16 can say.
#pragma once

#include "model/linear.h"
#include "model/module.h"
#include "recipe/architecture/model_config.h"

namespace longhaul::model {

class Hgrn2 final : public SequenceMixer {
 public:
  Hgrn2(const recipe::ModelConfig& config, const BlockPlace& place, ParameterSet& parameters);
  Summand summand(Context& context, BlockInput& input, const layout::SequenceView& view,
                  const MixerRows* state) override;

 private:
  Tensor lower_bound_hk() const;  // γ of this layer

  int64_t layer_, keys_, values_;  // channels of a head
  double eps_;
  Linear queries_gates_values_, output_;
  Parameter& norm_;
  Parameter& bounds_;
};

}  // namespace longhaul::model
