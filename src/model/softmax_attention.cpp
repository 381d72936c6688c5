#include "model/softmax_attention.h"

#include <fmt/format.h>

#include <cmath>

#include "kernels/attention/op.h"
#include "kernels/heads/op.h"

namespace longhaul::model {

SoftmaxAttention::SoftmaxAttention(const recipe::ModelConfig& config, int64_t layer, ParameterSet& parameters)
    : SequenceMixer(fmt::format("layers.{}.mixer", layer)),
      heads_(config.heads),
      kv_heads_(config.softmax.kv_heads),
      head_dim_(config.head_dim),
      rotary_dim_(config.position == recipe::Position::kRotary ? config.softmax.rotary_dim : 0),
      rotary_base_(config.softmax.rotary_base),
      qkv_(parameters, name(), "qkv", {"query", "key", "value"}, config.bias),
      output_(parameters, name(), "output", {"output"}, config.bias) {}

Tensor SoftmaxAttention::forward(Context& context, const Tensor& hidden, const layout::SequenceLayout& layout, MixerState* state) {
  const int64_t tokens = hidden.size(0);
  kernels::RotaryTable table;
  if (rotary_dim_ > 0) {
    table = context.rotary.table(layout.positions_of_axis(0), rotary_dim_, rotary_base_, context.precision.reduce, hidden.device());
  }
  const auto [q, k, v] = kernels::split_heads(qkv_.forward(context, hidden), heads_, kv_heads_, head_dim_, table);
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
