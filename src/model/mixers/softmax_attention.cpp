#include "model/mixers/softmax_attention.h"

#include <cmath>

#include "kernels/attention/op.h"
#include "kernels/feature_maps/op.h"
#include "kernels/rotary_heads/op.h"
#include "model/mixers/head_norm.h"

namespace longhaul::model {

SoftmaxAttention::SoftmaxAttention(const recipe::ModelConfig& config, const BlockPlace& place,
                                   ParameterSet& parameters)
    : SequenceMixer(place.name),
      head_dim_(config.head_dim),
      window_(config.softmax.window(place.layer)),
      causal_(config.causal),
      eps_(config.norm_eps),
      qkv_(parameters, name(), "qkv", {"query", "key", "value"},
           config.bias || config.softmax.bias != recipe::AttentionBias::kNone),
      output_(parameters, name(), "output", {"output"},
              config.bias || config.softmax.bias == recipe::AttentionBias::kAll),
      heads_(qkv_.rows(0) / head_dim_),
      kv_heads_(qkv_.rows(1) / head_dim_) {
  if (config.position == recipe::Position::kRotary) frequencies_ = config.softmax.rotary_frequencies();
  if (config.softmax.output_gate) {
    gate_.emplace(parameters, name(), "gate", std::vector<std::string>{"gate"},
                  config.bias || config.softmax.bias != recipe::AttentionBias::kNone);
  }
  if (!config.softmax.qk_norm) return;
  query_norm_ = &parameters.add_stacked(name() + ".query_norm.weight", {name() + ".query_norm.weight"});
  key_norm_ = &parameters.add_stacked(name() + ".key_norm.weight", {name() + ".key_norm.weight"});
}

Tensor SoftmaxAttention::normed(const Tensor& qkv) const {
  const int64_t queries = heads_ * head_dim_, keys = kv_heads_ * head_dim_;
  const std::vector<Tensor> parts = qkv.split_with_sizes({queries, keys, keys}, 1);
  return at::cat({head_norm(parts[0], *query_norm_, head_dim_, eps_),
                  head_norm(parts[1], *key_norm_, head_dim_, eps_), parts[2]},
                 1);
}

Summand SoftmaxAttention::summand(Context& context, BlockInput& input, const layout::SequenceView& view,
                                  const MixerRows* state) {
  const auto products = [&](const Tensor& rows) {
    return gate_ ? std::vector<Tensor>{qkv_.forward(rows), gate_->forward(rows)}
                 : std::vector<Tensor>{qkv_.forward(rows)};
  };
  const std::vector<Tensor> all = context.ops.of_gathered(input, products, view);
  const Tensor& made = all[0];
  const Tensor qkv = query_norm_ != nullptr ? normed(made) : made;
  kernels::RotaryTable table;
  if (!frequencies_.empty()) {
    table = context.rotary->table(view.positions_of_axis(0), frequencies_, context.precision.reduce,
                                  qkv.device());
  }
  const auto [q, k, v] = kernels::split_heads(qkv, heads_, kv_heads_, head_dim_, table);
  const kernels::AttentionOptions options{
      .scale = 1.0 / std::sqrt(static_cast<double>(head_dim_)), .window = window_, .causal = causal_};
  Tensor o;
  if (state != nullptr) {
    kernels::KeyValueCache& cache = state->state.keys_values();
    cache.append(state->rows, view.layout.document_offsets, k, v);
    o = context.ops.attention_cached(q, view, cache, state->rows, options);
    cache.forget(state->rows, window_);
  } else {
    o = context.ops.attention(q, k, v, view, options);
  }
  o = o.reshape({o.size(0), heads_ * head_dim_});
  return output_.summand(context, gate_ ? kernels::gated(o, all[1], kernels::FeatureMap::kSigmoid) : o);
}

}  // namespace longhaul::model
