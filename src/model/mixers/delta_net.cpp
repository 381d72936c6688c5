#include "model/mixers/delta_net.h"

#include <algorithm>
#include <cmath>

#include "kernels/delta_rule/gates.h"
#include "kernels/delta_rule/op.h"
#include "kernels/norm/op.h"
#include "kernels/short_convolution/op.h"

namespace longhaul::model {
namespace {

constexpr double kLengthEps = 1e-6;  // inside the root of a length, as in the public codes

Parameter& added_parameter(ParameterSet& parameters, const std::string& name) {
  return parameters.add_stacked(name, {name});
}

// With the heads that this rank has: of keys one at least, which it may have in common with others.
recipe::DeltaRuleSizes own_sizes(recipe::DeltaRuleSizes sizes, int64_t heads) {
  sizes.key_heads = std::max<int64_t>(1, sizes.key_heads * heads / sizes.heads);
  sizes.heads = heads;
  return sizes;
}

}  // namespace

DeltaHeads::DeltaHeads(const recipe::DeltaRuleSizes& sizes, int64_t own_heads, double norm_eps,
                       bool negative_eigenvalues, bool decays, const std::string& name,
                       ParameterSet& parameters)
    : sizes_(own_sizes(sizes, own_heads)),
      eps_(norm_eps),
      most_(negative_eigenvalues ? 2 : 1),
      convolution_(parameters.add_runs(name + ".convolution.weight",
                                       {name + ".query_convolution.weight", name + ".key_convolution.weight",
                                        name + ".value_convolution.weight"})),
      rate_(decays ? &added_parameter(parameters, name + ".rate.weight") : nullptr),
      step_(decays ? &added_parameter(parameters, name + ".step.weight") : nullptr),
      norm_(added_parameter(parameters, name + ".norm.weight")) {}

Tensor DeltaHeads::forward(Context& context, const Made& made, const Tensor& gate,
                           const layout::SequenceView& view, const MixerRows* state) const {
  const int64_t tokens = made.qkv_tc.size(0), heads = sizes_.heads, keys = sizes_.key_heads * sizes_.key,
                values = heads * sizes_.value;
  const Tensor seen = context.ops.short_convolution(
      made.qkv_tc, convolution_.use(), Tensor(), convolution_of(state, "convolution"), view, {.silu = true});
  const auto parts = seen.split_with_sizes({keys, keys, values}, 1);
  const auto key_heads = [&](const Tensor& x, double factor) {
    return kernels::of_length(x.view({tokens, sizes_.key_heads, sizes_.key}), factor, kLengthEps);
  };
  Tensor log_decay;
  if (rate_ != nullptr) {
    const Tensor forget = sizes_.by_channel ? made.forget.view({tokens, heads, sizes_.key}) : made.forget;
    const Tensor step = sizes_.by_channel ? step_->use().view({heads, sizes_.key}) : step_->use();
    log_decay = kernels::step_decays(forget, rate_->use(), step, state != nullptr);
  }
  const kernels::DeltaRuleInputs inputs{
      .q_tgk = key_heads(parts[0], 1 / std::sqrt(static_cast<double>(sizes_.key))),
      .k_tgk = key_heads(parts[1], 1),
      .v_thv = parts[2].view({tokens, heads, sizes_.value}),
      .beta_th = kernels::write_shares(made.write_th, most_, state != nullptr),
      .log_decay = log_decay};
  const Tensor o = context.ops.delta_rule(inputs, recurrence_of(state), view);
  const Tensor of_heads = gate.defined() ? gate.reshape({tokens * heads, sizes_.value}) : Tensor();
  return kernels::rms_norm(o.reshape({tokens * heads, sizes_.value}), norm_.use(), eps_, of_heads)
      .view({tokens, values});
}

DeltaNet::DeltaNet(const recipe::ModelConfig& config, const BlockPlace& place, ParameterSet& parameters)
    : SequenceMixer(place.name),
      gated_(config.deltanet.output_gate),
      projections_(parameters, name(), "projections",
                   gated_ ? std::vector<std::string>{"query", "key", "value", "write", "gate"}
                          : std::vector<std::string>{"query", "key", "value", "write"},
                   config.bias),
      heads_(recipe::entry_of(recipe::Mixer::kDeltaNet).operators(config).delta_rule, projections_.rows(3),
             config.deltanet.norm_eps, config.deltanet.negative_eigenvalues, /*decays=*/false, name(),
             parameters),
      output_(parameters, name(), "output", {"output"}, config.bias) {}

Summand DeltaNet::summand(Context& context, BlockInput& input, const layout::SequenceView& view,
                          const MixerRows* state) {
  const auto product = [&](const Tensor& rows) { return std::vector<Tensor>{projections_.forward(rows)}; };
  const Tensor made = context.ops.of_gathered(input, product, view)[0];
  const int64_t inner = projections_.rows(0) + projections_.rows(1) + projections_.rows(2),
                heads = projections_.rows(3);
  const Tensor gate = gated_ ? made.narrow(1, inner + heads, made.size(1) - inner - heads) : Tensor();
  const Tensor y = heads_.forward(context, {made.narrow(1, 0, inner), made.narrow(1, inner, heads), Tensor()},
                                  gate, view, state);
  return output_.summand(context, gated_ ? y * gate : y);  // g σ(g) is silu(g)
}

GatedDeltaNet::GatedDeltaNet(const recipe::ModelConfig& config, const BlockPlace& place,
                             ParameterSet& parameters)
    : SequenceMixer(place.name),
      projections_(parameters, name(), "projections", {"query", "key", "value", "gate", "write", "forget"},
                   config.bias),
      heads_(recipe::entry_of(recipe::Mixer::kGatedDeltaNet).operators(config).delta_rule,
             projections_.rows(4), config.gated_deltanet.norm_eps, config.gated_deltanet.negative_eigenvalues,
             /*decays=*/true, name(), parameters),
      output_(parameters, name(), "output", {"output"}, config.bias) {}

Summand GatedDeltaNet::summand(Context& context, BlockInput& input, const layout::SequenceView& view,
                               const MixerRows* state) {
  const auto product = [&](const Tensor& rows) { return std::vector<Tensor>{projections_.forward(rows)}; };
  const Tensor made = context.ops.of_gathered(input, product, view)[0];
  const int64_t inner = projections_.rows(0) + projections_.rows(1) + projections_.rows(2);
  const auto parts =
      made.split_with_sizes({inner, projections_.rows(3), projections_.rows(4), projections_.rows(5)}, 1);
  const Tensor y = heads_.forward(context, {parts[0], parts[2], parts[3]}, parts[1], view, state);
  return output_.summand(context, y * parts[1]);  // g σ(g) is silu(g)
}

Kda::Kda(const recipe::ModelConfig& config, const BlockPlace& place, ParameterSet& parameters)
    : SequenceMixer(place.name),
      projections_(parameters, name(), "projections", {"query", "key", "value", "write"}, config.bias),
      down_(parameters, name(), "down", {"forget_down", "gate_down"}, config.bias),
      forget_(parameters, name(), "forget", {"forget"}, config.bias),
      gate_(parameters, name(), "gate", {"gate"}, config.bias),
      heads_(recipe::entry_of(recipe::Mixer::kKda).operators(config).delta_rule, projections_.rows(3),
             config.kda.norm_eps, config.kda.negative_eigenvalues, /*decays=*/true, name(), parameters),
      output_(parameters, name(), "output", {"output"}, config.bias) {}

Summand Kda::summand(Context& context, BlockInput& input, const layout::SequenceView& view,
                     const MixerRows* state) {
  const auto products = [&](const Tensor& rows) {
    const auto narrow = down_.forward(rows).chunk(2, 1);
    return std::vector<Tensor>{projections_.forward(rows), forget_.forward(narrow[0].contiguous()),
                               gate_.forward(narrow[1].contiguous())};
  };
  const std::vector<Tensor> made = context.ops.of_gathered(input, products, view);
  const int64_t inner = made[0].size(1) - projections_.rows(3);
  const auto parts = made[0].split_with_sizes({inner, projections_.rows(3)}, 1);
  return output_.summand(context,
                         heads_.forward(context, {parts[0], parts[1], made[1]}, made[2], view, state));
}

}  // namespace longhaul::model
