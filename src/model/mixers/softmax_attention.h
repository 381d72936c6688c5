// Causal softmax attention with grouped key heads (docs/sources/minimax-01.md §2.4): scale 1/√head_dim,
// partial rotary positions, a window of keys where the layer has one (arXiv 2004.05150), and, where the model
// says so, RMS norms of each query and key head before they are rotated (arXiv 2505.09388), whose weights
// [head_dim] all heads share.
#pragma once

#include <optional>

#include "model/linear.h"
#include "model/module.h"
#include "recipe/architecture/model_config.h"

namespace longhaul::model {

class SoftmaxAttention final : public SequenceMixer {
 public:
  SoftmaxAttention(const recipe::ModelConfig& config, const BlockPlace& place, ParameterSet& parameters);
  Summand summand(Context& context, BlockInput& input, const layout::SequenceView& view,
                  const MixerRows* state) override;

 private:
  Tensor normed(const Tensor& qkv) const;  // queries and keys normed, values as they are

  int64_t head_dim_, window_;
  bool causal_;
  std::vector<double> frequencies_;  // of rotary positions; none: they are not rotated
  double eps_;
  Linear qkv_;
  std::optional<Linear> gate_;
  Parameter *query_norm_ = nullptr, *key_norm_ = nullptr;
  Linear output_;
  int64_t heads_, kv_heads_;  // of this rank
};

}  // namespace longhaul::model
