// Multi-head latent attention (MLA, DeepSeek-V2, arXiv 2405.04434 §2.1, eqs. 9 to 19). Of a token's input h,
// with R the rotation by its position:
//
//   c = norm(W_latent h)                       the latent [kv_rank]
//   s = R W_shared h                           a key [rotary_dim] that all heads share
//   c' = norm(W_down h), or h itself           what queries are made of [query_rank]
//   q_i = [R ρ | η],  [ρ | η] = W_query,i c'   of head i: [rotary_dim | key_dim]
//   k_i = [s | W_key,i c],  v_i = W_value,i c
//   y = W_output [o_1 | … ],  o_i = softmax attention of q_i, k_i, v_i, causal, scale 1/√(rotary_dim +
//     key_dim)
//
// Without positions (Kimi Linear, arXiv 2510.26692 §4) R is the identity. Norms are RMS norms with weights.
//
// Decoding keeps [c | s] of a token and nothing else (§2.1.2), and takes W_key and W_value to the other side
// of the products instead of making keys and values: η · W_key,i c = (W_key,iᵀ η) · c, and Σ p W_value,i c =
// W_value,i Σ p c. So all heads read one key of kv_rank + rotary_dim channels, whose first kv_rank are the
// value too. It is the same function, rounded elsewhere.
//
// Tensor ranks share the heads; latents and the shared key are made on each of them.
#pragma once

#include "kernels/matmul/packed_weight.h"
#include "model/linear.h"
#include "model/module.h"
#include "recipe/architecture/model_config.h"

namespace longhaul::model {

class LatentAttention final : public SequenceMixer {
 public:
  LatentAttention(const recipe::ModelConfig& config, const BlockPlace& place, ParameterSet& parameters);
  Summand summand(Context& context, BlockInput& input, const layout::SequenceView& view,
                  const MixerRows* state) override;

 private:
  struct Made {
    Tensor q_thd, latent_tr, shared_tor;  // of tokens t; the shared key [T, 1, rotary_dim], undefined without
  };
  Made made(Context& context, BlockInput& input, const layout::SequenceView& view) const;
  // [T, heads, value_dim]
  Tensor attended(Context& context, const Made& of, const layout::SequenceView& view) const;
  Tensor attended_cached(Context& context, const Made& of, const layout::SequenceView& view,
                         const MixerRows& state);

  recipe::MlaOptions sizes_;
  int64_t window_;
  std::vector<double> frequencies_;  // none: no positions
  Linear down_;
  Parameter *query_norm_ = nullptr, *latent_norm_ = nullptr;
  Linear query_, key_, value_, output_;
  int64_t heads_;  // of this rank
  // decoding's copies of W_key and W_value, head by head
  kernels::PackedWeight keys_of_heads_, values_of_heads_;
};

}  // namespace longhaul::model
