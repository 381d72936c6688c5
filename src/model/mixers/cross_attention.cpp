#include "model/mixers/cross_attention.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "kernels/attention/op.h"
#include "kernels/feature_maps/op.h"
#include "kernels/rotary_heads/op.h"
#include "model/mixers/head_norm.h"

namespace longhaul::model {
namespace {

bool biased(const recipe::ModelConfig& config) {
  return config.bias || config.softmax.bias != recipe::AttentionBias::kNone;
}

void require_alike(const std::string& name, const layout::SequenceView& view, const Memory& memory) {
  const auto refuse = [&](const std::string& what, const std::string& expected, const std::string& found) {
    throw Error({.code = ExitCode::kUsage,
                 .what = fmt::format("{}: {}", name, what),
                 .expected = expected,
                 .found = found,
                 .where = "the memory of cross-attention (model/mixers/cross_attention.h)"});
  };
  const layout::RowShare &of_queries = view.share, &of_memory = memory.view.share;
  if (memory.view.layout.documents() != view.layout.documents()) {
    refuse("the memory has other documents than the queries",
           fmt::format("{} documents, which may be empty", view.layout.documents()),
           std::to_string(memory.view.layout.documents()));
  }
  if (of_memory.tensor_ranks != of_queries.tensor_ranks) {
    refuse("the memory is not cut over the tensor ranks",
           fmt::format("rows of one of {} tensor ranks", of_queries.tensor_ranks),
           fmt::format("of one of {}", of_memory.tensor_ranks));
  }
  if (of_memory.context_ranks != 1 && of_memory.context_ranks != of_queries.context_ranks) {
    refuse("the memory is cut over other context ranks than the queries",
           fmt::format("1 context rank (the whole memory on each) or {}", of_queries.context_ranks),
           std::to_string(of_memory.context_ranks));
  }
  const Tensor& rows = memory.input.own_td;
  if (!rows.defined() || rows.dim() != 2 || rows.size(0) != memory.view.own.length) {
    refuse("the rows of the memory are not those of its layout",
           fmt::format("[{}, channels]", memory.view.own.length),
           rows.defined() ? fmt::format("[{}]", fmt::join(rows.sizes(), ", ")) : "nothing");
  }
}

}  // namespace

CrossAttention::CrossAttention(const recipe::ModelConfig& config, const BlockPlace& place,
                               ParameterSet& parameters, const CrossAttentionOptions& options)
    : SequenceMixer(place.name),
      head_dim_(config.head_dim),
      options_(options),
      eps_(config.norm_eps),
      query_(parameters, name(), "query", {"query"}, biased(config)),
      key_value_(parameters, name(), "key_value", {"key", "value"}, biased(config)),
      output_(parameters, name(), "output", {"output"},
              config.bias || config.softmax.bias == recipe::AttentionBias::kAll),
      heads_(query_.rows(0) / head_dim_),
      kv_heads_(key_value_.rows(0) / head_dim_) {
  if (options.rotary) frequencies_ = config.softmax.rotary_frequencies();
  if (config.softmax.output_gate)
    gate_.emplace(parameters, name(), "gate", std::vector<std::string>{"gate"}, biased(config));
  if (!config.softmax.qk_norm) return;
  query_norm_ = &parameters.add_stacked(name() + ".query_norm.weight", {name() + ".query_norm.weight"});
  key_norm_ = &parameters.add_stacked(name() + ".key_norm.weight", {name() + ".key_norm.weight"});
}

Summand CrossAttention::summand(Context&, BlockInput&, const layout::SequenceView&, const MixerRows*) {
  throw Error({.code = ExitCode::kUsage,
               .what = name() + " attends to a memory, and none was given",
               .expected = "hidden states and a layout beside those of the queries",
               .found = "the queries alone",
               .where = "SequenceMixer::cross_summand (model/module.h)"});
}

Tensor CrossAttention::queries(Context& context, Tensor made, const layout::SequenceView& view) const {
  if (query_norm_ != nullptr) made = head_norm(made, *query_norm_, head_dim_, eps_);
  kernels::RotaryTable table;
  if (!frequencies_.empty())
    table = context.rotary->table(view.positions_of_axis(0), frequencies_, context.precision.reduce,
                                  made.device());
  return kernels::split_heads(made, heads_, 0, head_dim_, table).q_thd;
}

std::pair<Tensor, Tensor> CrossAttention::keys_and_values(Context& context, Memory& memory) const {
  const auto product = [&](const Tensor& rows) { return std::vector<Tensor>{key_value_.forward(rows)}; };
  Tensor made = context.ops.of_gathered(memory.input, product, memory.view)[0];
  if (key_norm_ != nullptr) {
    const std::vector<Tensor> parts = made.split(kv_heads_ * head_dim_, 1);
    made = at::cat({head_norm(parts[0], *key_norm_, head_dim_, eps_), parts[1]}, 1);
  }
  kernels::RotaryTable table;
  if (!frequencies_.empty())
    table = context.rotary->table(memory.view.positions_of_axis(0), frequencies_, context.precision.reduce,
                                  made.device());
  const auto heads = kernels::split_heads(made, 0, kv_heads_, head_dim_, table);
  return {heads.k_thd, heads.v_thd};
}

Summand CrossAttention::cross_summand(Context& context, BlockInput& input, const layout::SequenceView& view,
                                      Memory& memory) {
  require_alike(name(), view, memory);
  const auto products = [&](const Tensor& rows) {
    return gate_ ? std::vector<Tensor>{query_.forward(rows), gate_->forward(rows)}
                 : std::vector<Tensor>{query_.forward(rows)};
  };
  const std::vector<Tensor> made = context.ops.of_gathered(input, products, view);
  const Tensor q = queries(context, made[0], view);
  const auto [k, v] = keys_and_values(context, memory);
  Tensor o = context.ops.cross_attention(
      q, k, v, view, memory.view,
      {.scale = 1.0 / std::sqrt(static_cast<double>(head_dim_)), .causal = options_.causal});
  o = o.reshape({o.size(0), heads_ * head_dim_});
  return output_.summand(context, gate_ ? kernels::gated(o, made[1], kernels::FeatureMap::kSigmoid) : o);
}

}  // namespace longhaul::model
