// Mamba-2 (SSD, arXiv 2405.21060): a linear recurrence with one decay a token and head, whose keys and
// queries B and C all heads of a group share:
//
//   z, x, Δ, B, C = h W…        x, B, C = silu(conv(·))        Δ = softplus(Δ + b)        A = −e^a
//   S_t = e^{Δ_t A} S_{t−1} + B_tᵀ (Δ_t x_t)        y_t = C_t S_t + D x_t
//   out = RMSNorm(y ⊙ silu(z)) Wout
//
// The norm is over all channels, or over those of each group of heads (mamba2.norm_groups). Per head one Δ,
// a, b and D, in fp32. Over tensor ranks heads are dealt out; every rank makes all of B and C.
#pragma once

#include <optional>

#include "model/linear.h"
#include "model/module.h"
#include "recipe/architecture/model_config.h"

namespace longhaul::model {

class Mamba2 final : public SequenceMixer {
 public:
  Mamba2(const recipe::ModelConfig& config, const BlockPlace& place, ParameterSet& parameters);
  Summand summand(Context& context, BlockInput& input, const layout::SequenceView& view,
                  const MixerRows* state) override;

 private:
  struct Convolution {  // of all taps, and its bias
    Parameter *weight, *bias;
    Tensor run(Context& context, const Tensor& x_tc, const MixerRows* state, const char* name,
               const layout::SequenceView& view) const;
  };
  static Convolution convolution(ParameterSet& parameters, const std::string& storage,
                                 const std::vector<std::string>& names);
  Tensor normed(Context& context, const Tensor& gated_tc) const;
  // [tokens, groups · state] → [tokens, heads, state], without a copy
  Tensor of_heads(const Tensor& shared_tc) const;

  int64_t state_, groups_, head_dim_;
  double eps_;
  Linear gate_value_step_, key_query_;
  Convolution of_values_, of_keys_queries_;
  Parameter &log_rate_, &step_bias_, &skip_, &norm_;
  Linear output_;
  int64_t heads_, first_head_, heads_a_group_;
  int64_t normed_channels_;  // together; 0: all, of all ranks
  Tensor ones_;              // so many
};

}  // namespace longhaul::model
