#include "model/mixers/latent_attention.h"

#include <cmath>

#include "kernels/attention/op.h"
#include "kernels/linear/raw.h"
#include "kernels/norm/op.h"
#include "kernels/rotary_heads/op.h"

namespace longhaul::model {
namespace {

std::vector<std::string> narrow_outputs(const recipe::MlaOptions& sizes) {
  std::vector<std::string> names;
  if (sizes.query_rank > 0) names.emplace_back("query_down");
  names.emplace_back("latent");
  if (sizes.rotary_dim > 0) names.emplace_back("shared_key");
  return names;
}

// [T, heads, …] and the rows of each head below those of the one before.
Tensor by_head(const Tensor& x_thc) {
  return x_thc.transpose(0, 1).reshape({x_thc.size(0) * x_thc.size(1), x_thc.size(2)});
}
Tensor by_token(const Tensor& x_rc, int64_t heads) {
  return x_rc.view({heads, x_rc.size(0) / heads, x_rc.size(1)}).transpose(0, 1);
}

}  // namespace

LatentAttention::LatentAttention(const recipe::ModelConfig& config, const BlockPlace& place,
                                 ParameterSet& parameters)
    : SequenceMixer(place.name),
      sizes_(recipe::mla_sizes(config)),
      window_(config.softmax.window(place.layer)),
      down_(parameters, name(), "down", narrow_outputs(sizes_), config.bias),
      query_norm_(sizes_.query_rank > 0 ? &parameters.add_stacked(name() + ".query_norm.weight",
                                                                  {name() + ".query_norm.weight"})
                                        : nullptr),
      latent_norm_(&parameters.add_stacked(name() + ".latent_norm.weight", {name() + ".latent_norm.weight"})),
      query_(parameters, name(), "query", {"query"}, config.bias),
      key_(parameters, name(), "key", {"key"}, config.bias, Linear::Weights::kWide),
      value_(parameters, name(), "value", {"value"}, config.bias, Linear::Weights::kWide),
      output_(parameters, name(), "output", {"output"}, config.bias),
      heads_(key_.rows(0) / sizes_.key_dim) {
  if (config.position == recipe::Position::kRotary)
    frequencies_ = config.softmax.rotary_frequencies(sizes_.rotary_dim);
}

LatentAttention::Made LatentAttention::made(Context& context, BlockInput& input,
                                            const layout::SequenceView& view) const {
  const auto products = [&](const Tensor& rows) {
    return query_norm_ != nullptr ? std::vector<Tensor>{down_.forward(rows)}
                                  : std::vector<Tensor>{down_.forward(rows), query_.forward(rows)};
  };
  const std::vector<Tensor> all = context.ops.of_gathered(input, products, view);
  const std::vector<Tensor> narrow =
      all[0].split_with_sizes({sizes_.query_rank, sizes_.kv_rank, sizes_.rotary_dim}, 1);
  const auto normed = [&](const Tensor& x, Parameter& weight) {
    return kernels::rms_norm(x.contiguous(), weight.use(), sizes_.norm_eps);
  };
  const Tensor queries = query_norm_ != nullptr ? query_.forward(normed(narrow[0], *query_norm_)) : all[1];
  kernels::RotaryTable table;
  if (!frequencies_.empty()) {
    table = context.rotary->table(view.positions_of_axis(0), frequencies_, context.precision.reduce,
                                  queries.device());
  }
  Made result{
      .q_thd = kernels::split_heads(queries, heads_, 0, sizes_.rotary_dim + sizes_.key_dim, table).q_thd,
      .latent_tr = normed(narrow[1], *latent_norm_),
      .shared_tor = {}};
  if (sizes_.rotary_dim == 0) return result;
  // Rotated in place: a copy of its own, not a part of what was made with the latents.
  result.shared_tor = frequencies_.empty()
                          ? narrow[2].unsqueeze(1)
                          : kernels::split_heads(narrow[2].clone(at::MemoryFormat::Contiguous), 1, 0,
                                                 sizes_.rotary_dim, table)
                                .q_thd;
  return result;
}

Tensor LatentAttention::attended(Context& context, const Made& of, const layout::SequenceView& view) const {
  const int64_t tokens = of.latent_tr.size(0);
  Tensor keys = key_.forward(of.latent_tr).view({tokens, heads_, sizes_.key_dim});
  if (of.shared_tor.defined())
    keys = at::cat({of.shared_tor.expand({tokens, heads_, sizes_.rotary_dim}), keys}, 2);
  const Tensor values = value_.forward(of.latent_tr).view({tokens, heads_, sizes_.value_dim});
  const double channels = static_cast<double>(sizes_.rotary_dim + sizes_.key_dim);
  return context.ops.attention(of.q_thd, keys, values, view,
                               {.scale = 1.0 / std::sqrt(channels), .window = window_});
}

Tensor LatentAttention::attended_cached(Context& context, const Made& of, const layout::SequenceView& view,
                                        const MixerRows& state) {
  const int64_t rotary = sizes_.rotary_dim, key = sizes_.key_dim, rank = sizes_.kv_rank;
  const Tensor latent = of.latent_tr.unsqueeze(1);
  kernels::KeyValueCache& cache = state.state.keys_values();
  cache.append(state.rows, view.layout.document_offsets,
               of.shared_tor.defined() ? at::cat({latent, of.shared_tor}, 2) : latent, Tensor());
  const std::vector<int64_t> rows(static_cast<size_t>(heads_), of.q_thd.size(0));  // of each head
  const auto [key_weight, key_version] = key_.merged();
  const auto [value_weight, value_version] = value_.merged();
  const auto of_heads = [&](const Tensor& weight, int64_t channels) {
    return weight.view({heads_, channels, rank});
  };
  Tensor q = by_token(
      kernels::grouped_linear_input_gradient(by_head(of.q_thd.narrow(2, rotary, key)), rows,
                                             of_heads(key_weight, key), {&keys_of_heads_, key_version}),
      heads_);
  q = rotary > 0 ? at::cat({q, of.q_thd.narrow(2, 0, rotary)}, 2) : q.contiguous();
  const kernels::AttentionOptions options{.scale = 1.0 / std::sqrt(static_cast<double>(rotary + key)),
                                          .window = window_};
  const Tensor o = context.ops.attention_cached(q, view, cache, state.rows, options);
  cache.forget(state.rows, window_);
  const Tensor values = kernels::grouped_linear(by_head(o), rows, of_heads(value_weight, sizes_.value_dim),
                                                {}, {&values_of_heads_, value_version});
  return by_token(values, heads_);
}

Summand LatentAttention::summand(Context& context, BlockInput& input, const layout::SequenceView& view,
                                 const MixerRows* state) {
  const Made of = made(context, input, view);
  Tensor o;
  if (state != nullptr) {
    o = attended_cached(context, of, view, *state);
  } else {
    keys_of_heads_.release();
    values_of_heads_.release();
    o = attended(context, of, view);
  }
  return output_.summand(context, o.reshape({o.size(0), heads_ * sizes_.value_dim}));
}

}  // namespace longhaul::model
