// LCSM (arXiv 2405.17383; docs/sources/linear-attention.md §7): a memory m of `state` rows and d channels,
// whose every entry oscillates by itself:
//
//   m_t[k, c] = o_t[k, c] m_{t−1}[k, c] + e_t[k, (c)] i_t[c]        y_t[c] = Σ_k s_t[k, (c)] m_t[k, c]
//   out = LayerNorm(y) Wout
//
// i = x Wi; e (expand) and s (shrink) are made of x, one for all channels, or parameters [k, d]; both
// activated. o, with z^(1/τ) for σ(z)^(1/τ):
//
//   matrix  P[k,c]^(1/τ)                input_both       (x Wk)_k^(1/τ) (x Wd)_c^(1/τ)    input_key_matrix
//                                                        ((x Wk)_k P[k,c])^(1/τ)
//   key     p[k]^(1/τ)                  input_key        (x Wk)_k^(1/τ)                   input_value_matrix
//                                                        ((x Wd)_c P[k,c])^(1/τ)
//   value   p[c]^(1/τ)                  input_value      (x Wd)_c^(1/τ)                   input_key_value
//                                                        ((x Wk)_k p[c])^(1/τ)
//   none    1                           input_value_key  ((x Wd)_c p[k])^(1/τ)
//   rotation     1, and e, s become [e cos θ, e sin θ] with θ = position · 10000^(−2k/d)
//   cumulative   λ = e^{z_{t−1} − z_t}, z = log Σ e^{f}, f = x Wk cut to ±10; e is multiplied by 1 − λ
//   state_space  exp(−Δ_c A[k,c]), Δ = softplus(x W1 W2), A = e^P, at first 1, 2, …; i is multiplied by Δ
//                (Mamba)
//
// τ = 0: matrix, key and value are e^{−s} with fixed slopes s, input_… e^{−σ(z) s}. Where nothing depends on
// k and c together it is one head of the linear recurrence; else every channel is a head of its own, whose
// decays are those of its column. Tensor ranks have some of the channels each, and all of what is of rows.
#pragma once

#include "model/linear.h"
#include "model/module.h"
#include "recipe/architecture/model_config.h"

namespace longhaul::model {

class Lcsm final : public SequenceMixer {
 public:
  Lcsm(const recipe::ModelConfig& config, const BlockPlace& place, ParameterSet& parameters);
  Summand summand(Context& context, BlockInput& input, const layout::SequenceView& view,
                  const MixerRows* state) override;

 private:
  struct Made {
    Tensor input_td, expand_tk, shrink_tk, key_tk, value_td;  // of x; those that are wanted
  };
  Made made_of(Context& context, BlockInput& input, const layout::SequenceView& view, bool decoding) const;
  Tensor own_slopes() const;  // fixed ones of this rank's channels
  // log of σ(z)^(1/τ), or, τ = 0, −σ(z) s; z's last axis are `slopes`'.
  Tensor log_gate(const Tensor& z, const Tensor& slopes) const;
  Tensor log_oscillation(const Made& made) const;  // as the recurrence takes it
  Tensor shares_so_far(Context& context, const Tensor& logits_tk, const layout::SequenceView& view,
                       const MixerRows* state) const;
  Tensor activated(const Tensor& x) const;
  Parameter* parameter_of(ParameterSet& parameters, const char* part, bool wanted) const;

  recipe::LcsmOptions options_;
  int64_t all_channels_;
  Linear of_channels_;
  std::optional<Linear> of_rows_, steps_;
  int64_t channels_, first_channel_;  // of this rank
  Parameter *expand_, *shrink_, *oscillation_, *norm_, *shift_;
  Linear output_;
};

}  // namespace longhaul::model
