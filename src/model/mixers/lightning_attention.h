// Lightning attention as in MiniMax-01 (docs/sources/minimax-01.md §2.2, arXiv 2501.08313, 2401.04658):
//
//   q, k, v = silu(h Wqkv)      S_t = e^{−s} S_{t−1} + k_tᵀ v_t      o_t = q_t S_t
//   out = (sigmoid(h Wgate) ⊙ RMSNorm(concat_heads(o))) Wout
//
// with a fixed slope s for each head and layer, no scale, no positions; the norm runs over all heads'
// channels together.
#pragma once

#include <vector>

#include "model/linear.h"
#include "model/module.h"
#include "recipe/architecture/model_config.h"

namespace longhaul::model {

// 2^{−8(h+1)/H} for H a power of two; otherwise the slopes of the next lower power, then every other slope of
// the next higher one.
std::vector<double> geometric_slopes(int64_t heads, bool plain_formula = false);
// Slopes s > 0 of one layer's heads. Known values for 64 heads and 80 layers: s(0, 0) = 0.9170132, s(78, 63)
// = 4.948526e-5. Head counts that are no power of two interleave as ALiBi's do.
std::vector<double> lightning_slopes(int64_t heads, int64_t layer, int64_t layers,
                                     const recipe::LightningOptions& options);

class LightningAttention final : public SequenceMixer {
 public:
  LightningAttention(const recipe::ModelConfig& config, const BlockPlace& place, ParameterSet& parameters);
  Summand summand(Context& context, BlockInput& input, const layout::SequenceView& view,
                  const MixerRows* state) override;

 private:
  int64_t head_dim_;
  double eps_;
  recipe::LightningState state_;
  bool silu_wide_;
  Linear qkv_, gate_, output_;
  int64_t heads_;  // of this rank
  Parameter& norm_;
  // −s, never in a low precision: bf16 would round slow heads' decay to 1 (docs/sources/minimax-01.md §12)
  Tensor log_decay_h_;
};

}  // namespace longhaul::model
