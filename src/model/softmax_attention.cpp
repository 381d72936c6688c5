#include "model/softmax_attention.h"

#include <fmt/format.h>

#include <cmath>

#include "kernels/attention/op.h"
#include "kernels/heads/op.h"

namespace longhaul::model {

SoftmaxAttention::SoftmaxAttention(const recipe::ModelConfig& config, int64_t layer, ParameterSet& parameters)
    : SequenceMixer(fmt::format("layers.{}.mixer", layer)),
      head_dim_(config.head_dim),
      rotary_dim_(config.position == recipe::Position::kRotary ? config.softmax.rotary_dim : 0),
      rotary_base_(config.softmax.rotary_base),
      qkv_(parameters, name(), "qkv", {"query", "key", "value"}, config.bias),
      output_(parameters, name(), "output", {"output"}, config.bias),
      heads_(qkv_.rows(0) / head_dim_),
      kv_heads_(qkv_.rows(1) / head_dim_) {}

Summand SoftmaxAttention::summand(Context& context, BlockInput& input, const layout::SequenceView& view, const MixerRows* state) {
  const auto product = [&](const Tensor& rows) { return std::vector<Tensor>{qkv_.forward(rows)}; };
  const Tensor qkv = context.ops.of_gathered(input, product, view)[0];
  kernels::RotaryTable table;
  if (rotary_dim_ > 0) {
    table = context.rotary->table(view.positions_of_axis(0), rotary_dim_, rotary_base_, context.precision.reduce, qkv.device());
  }
  const auto [q, k, v] = kernels::split_heads(qkv, heads_, kv_heads_, head_dim_, table);
  const kernels::AttentionOptions options{.scale = 1.0 / std::sqrt(static_cast<double>(head_dim_))};
  Tensor o;
  if (state != nullptr) {
    kernels::KeyValueCache& cache = state->state.keys_values();
    cache.append(state->rows, view.layout.document_offsets, k, v);
    o = context.ops.attention_cached(q, view, cache, state->rows, options);
  } else {
    o = context.ops.attention(q, k, v, view, options);
  }
  return output_.summand(context, o.reshape({o.size(0), heads_ * head_dim_}));
}

}  // namespace longhaul::model
