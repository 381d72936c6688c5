#include "model/softmax_attention.h"

#include <fmt/format.h>

#include <cmath>

#include "model/rotary.h"

namespace longhaul::model {

SoftmaxAttention::SoftmaxAttention(const recipe::ModelConfig& config, int64_t layer, ParameterSet& parameters)
    : SequenceMixer(fmt::format("layers.{}.mixer", layer)),
      heads_(config.heads),
      kv_heads_(config.kv_heads),
      head_dim_(config.head_dim),
      rotary_dim_(config.position == recipe::Position::kRotary ? config.rotary_dim : 0),
      rotary_base_(config.rotary_base),
      qkv_(parameters, name(), "qkv", {"query", "key", "value"}, config.bias),
      output_(parameters, name(), "output", {"output"}, config.bias) {}

Tensor SoftmaxAttention::forward(Context& context, const Tensor& hidden, const layout::SequenceLayout& layout, MixerState* state) {
  const int64_t tokens = hidden.size(0);
  const Tensor qkv = qkv_.forward(context, hidden).view({tokens, heads_ + 2 * kv_heads_, head_dim_});
  Tensor q = qkv.narrow(1, 0, heads_), k = qkv.narrow(1, heads_, kv_heads_), v = qkv.narrow(1, heads_ + kv_heads_, kv_heads_);
  if (rotary_dim_ > 0) {
    const RotaryTable table = rotary_table(layout.positions_of_axis(0), rotary_dim_, rotary_base_, context.precision.reduce);
    q = apply_rotary(q, table);
    k = apply_rotary(k, table);
  }
  const kernels::AttentionOptions options{.scale = 1.0 / std::sqrt(static_cast<double>(head_dim_))};
  Tensor o;
  if (state != nullptr) {
    state->keys_values.append(k, v);
    o = context.ops.attention_cached(q, state->keys_values, options);
  } else {
    o = context.ops.attention(q, k, v, layout, options);
  }
  return context.ops.sum_over_tensor_ranks(output_.forward(context, o.reshape({tokens, heads_ * head_dim_})));
}

}  // namespace longhaul::model
