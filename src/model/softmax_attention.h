// Causal softmax attention with grouped key heads (minimax-01.md §2.4): scale 1/√head_dim, partial rotary positions, no norm of
// queries or keys.
#pragma once

#include "model/linear.h"
#include "model/module.h"
#include "recipe/model_config.h"

namespace longhaul::model {

class SoftmaxAttention final : public SequenceMixer {
 public:
  SoftmaxAttention(const recipe::ModelConfig& config, int64_t layer, ParameterSet& parameters);
  Summand summand(Context& context, BlockInput& input, const layout::SequenceView& view, const MixerRows* state) override;

 private:
  int64_t head_dim_, rotary_dim_;
  double rotary_base_;
  Linear qkv_, output_;
  int64_t heads_, kv_heads_;  // of this rank
};

}  // namespace longhaul::model
