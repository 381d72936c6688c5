// Mixers whose state corrects itself before it writes (kernels/delta_rule). Per value head h, with q, k, v =
// silu(conv(x W)), short causal convolutions of each channel, and q and k of length 1 (q times 1/√d_k):
//
//   S' = λ_t ⊙ S_{t−1}      S_t = S' + β_t k_tᵀ (v_t − k_t S')      o_t = q_t S_t      β = σ(x w_h), or twice
//                                                                                      that
//   out = concat_h(RMSNorm(o) w ⊙ gate) Wout,  one w [d_v] for all heads
//
//                   λ                                              gate
//   DeltaNet        1                                              none, or silu(x Wg)      arXiv 2406.06484;
//                                                                  fla
//   GatedDeltaNet   exp(−e^{a_h} softplus(x f_h + b_h))            silu(x Wg)               2412.06464; fla;
//                                                                  Qwen3-Next
//   Kda             exp(−e^{a_h} softplus(x F1 F2 + b)), [d_k]     σ(x G1 G2)               2510.26692 (Kimi
//                                                                  Linear)
//
// Key heads of GatedDeltaNet may serve a group of value heads each. No positions. Where public codes differ:
// docs/models/deltanet.md.
#pragma once

#include "model/linear.h"
#include "model/module.h"
#include "recipe/architecture/model_config.h"
#include "recipe/mixers.h"

namespace longhaul::model {

// What both have, of this rank's heads.
class DeltaHeads {
 public:
  struct Made {
    Tensor qkv_tc, write_th, forget;  // forget [T, H] or [T, H · Dk]; undefined without decays
  };
  // own_heads: this rank's.
  DeltaHeads(const recipe::DeltaRuleSizes& sizes, int64_t own_heads, double norm_eps,
             bool negative_eigenvalues, bool decays, const std::string& name, ParameterSet& parameters);
  // → RMSNorm(o) w ⊙ σ(gate), or without a gate, [T, H · Dv]
  Tensor forward(Context& context, const Made& made, const Tensor& gate_tc, const layout::SequenceView& view,
                 const MixerRows* state) const;

 private:
  recipe::DeltaRuleSizes sizes_;
  double eps_, most_;
  Stacked convolution_;
  Parameter *rate_ = nullptr, *step_ = nullptr;  // of decays
  Parameter& norm_;
};

class DeltaNet final : public SequenceMixer {
 public:
  DeltaNet(const recipe::ModelConfig& config, const BlockPlace& place, ParameterSet& parameters);
  Summand summand(Context& context, BlockInput& input, const layout::SequenceView& view,
                  const MixerRows* state) override;

 private:
  bool gated_;
  Linear projections_;
  DeltaHeads heads_;
  Linear output_;
};

class GatedDeltaNet final : public SequenceMixer {
 public:
  GatedDeltaNet(const recipe::ModelConfig& config, const BlockPlace& place, ParameterSet& parameters);
  Summand summand(Context& context, BlockInput& input, const layout::SequenceView& view,
                  const MixerRows* state) override;

 private:
  Linear projections_;
  DeltaHeads heads_;
  Linear output_;
};

class Kda final : public SequenceMixer {
 public:
  Kda(const recipe::ModelConfig& config, const BlockPlace& place, ParameterSet& parameters);
  Summand summand(Context& context, BlockInput& input, const layout::SequenceView& view,
                  const MixerRows* state) override;

 private:
  Linear projections_, down_, forget_, gate_;
  DeltaHeads heads_;
  Linear output_;
};

}  // namespace longhaul::model
