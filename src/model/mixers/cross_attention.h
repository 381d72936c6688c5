// Softmax attention to a memory: queries are made of the block's input, keys and values of a second sequence
// (cross-attention, arXiv 1706.03762 §3.2.3). Document i of the one attends to document i of the other;
// either may be of any length, and a query whose document has no memory reads zeros. Every row of the memory
// is seen, unless `causal` says otherwise. Scale, grouped key heads, norms of queries and keys, output gate
// and biases are those of softmax layers (model/mixers/softmax_attention.h).
//
// Tensor ranks share the heads; each has its own rows of input and memory between mixers, and they are
// gathered for the products. Context ranks cut the memory as they cut the row of the queries, and keys and
// values of all are gathered; or each of them has the whole memory, and nothing is sent: a rank's gradients
// are then the part of its queries, and the sum that the step takes of them is the whole.
//
//   tensors    layout::mixer_parameters(config, "tower.", recipe::cross_attention_tensors(config, width))
//   module     CrossAttention(config, {.name = "tower.mixer"}, parameters)
//   use        module.forward(context, hidden_td, view, memory)
#pragma once

#include <optional>

#include "model/linear.h"
#include "model/module.h"
#include "recipe/architecture/model_config.h"

namespace longhaul::model {

struct CrossAttentionOptions {
  // Queries and keys are rotated, by the positions of their own layouts and with the frequencies of softmax
  // layers.
  bool rotary = false;
  // The last token of a document sees all of its memory, and each one before it sees one row less.
  bool causal = false;
};

class CrossAttention final : public SequenceMixer {
 public:
  CrossAttention(const recipe::ModelConfig& config, const BlockPlace& place, ParameterSet& parameters,
                 const CrossAttentionOptions& options = {});
  // kUsage: it attends to a memory, and there is none
  Summand summand(Context& context, BlockInput& input, const layout::SequenceView& view,
                  const MixerRows* state) override;
  Summand cross_summand(Context& context, BlockInput& input, const layout::SequenceView& view,
                        Memory& memory) override;

 private:
  Tensor queries(Context& context, Tensor made, const layout::SequenceView& view) const;
  std::pair<Tensor, Tensor> keys_and_values(Context& context, Memory& memory) const;

  int64_t head_dim_;
  CrossAttentionOptions options_;
  std::vector<double> frequencies_;  // none: nothing is rotated
  double eps_;
  Linear query_, key_value_;
  std::optional<Linear> gate_;
  Parameter *query_norm_ = nullptr, *key_norm_ = nullptr;
  Linear output_;
  int64_t heads_, kv_heads_;  // of this rank
};

}  // namespace longhaul::model
