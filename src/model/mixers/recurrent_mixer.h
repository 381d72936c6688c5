// The mixers that are choices of q, k, v and decay of one recurrence (docs/sources/linear-attention.md §1):
// TransNormerLLM, RetNet, GLA, cosFormer, cosFormer2, LightNet, MetaLA. What each chooses its plan says
// (recipe/mixers/recurrent/recurrent.h); the way is the same:
//
//   x = conv(h)                                                     where there is a short convolution
//   q, k, v, gate, forget logits = x W…
//   gate and logits directly or by way of a few channels
//   q, k = turn(φ(q)), turn(φ(k))        v = φ(v)                   by positions
//   λ, or the keys and λ of a cumulative softmax                    S_t = λ_t ⊙ S_{t−1} + k_tᵀ v_t
//   o_t = scale · q_t S_t
//   out = (norm(o) ⊙ φ(gate)) Wout
//
// Per head `key` channels of q and k and `value` of v; a cosine turn doubles the keys.
#pragma once

#include <optional>

#include "model/linear.h"
#include "model/module.h"
#include "recipe/architecture/model_config.h"
#include "recipe/mixers/recurrent/recurrent.h"

namespace longhaul::kernels {
struct TurnTable;  // feature_maps/op.h
}

namespace longhaul::model {

class RecurrentMixer final : public SequenceMixer {
 public:
  // shared_frequencies: the tensor of learned frequencies that the model has, whether this layer turns or
  // not; empty: none.
  RecurrentMixer(const recipe::RecurrentPlan& plan, const recipe::ModelConfig& config,
                 const BlockPlace& place, ParameterSet& parameters,
                 const std::string& shared_frequencies = {});
  Summand summand(Context& context, BlockInput& input, const layout::SequenceView& view,
                  const MixerRows* state) override;

 private:
  struct Made {  // by the projections, of this rank's heads: [tokens, channels]
    Tensor query, key, value, forget, gate;
  };
  static Made for_quotient(const Context& context, const Made& made);  // in the wide precision
  Made project(Context& context, BlockInput& input, const layout::SequenceView& view,
               const MixerRows* state) const;
  kernels::TurnTable turns(Context& context, const layout::SequenceView& view, const Tensor& like) const;
  Tensor recur(Context& context, const Made& made, const layout::SequenceView& view,
               const MixerRows* state) const;
  Tensor self_term(const Made& made, const Tensor& q_thd, const Tensor& v_thd, bool decoding) const;
  Tensor norm_and_gate(Context& context, const Tensor& o_thd, const Tensor& gate_tc) const;

  recipe::RecurrentPlan plan_;
  Parameter* convolution_ = nullptr;
  Linear products_, output_;
  std::optional<Linear> forget_down_, forget_up_, gate_down_, gate_up_;
  Parameter *frequencies_ = nullptr, *self_ = nullptr, *norm_ = nullptr;
  int64_t heads_, first_head_, memory_heads_;  // of this rank; those of keys, values and decays
  // slopes, never in a low precision; weights of a norm without any
  Tensor log_decay_h_, ones_;
};

}  // namespace longhaul::model
