#include "model/mixers/mamba2.h"

#include "kernels/feature_maps/op.h"
#include "kernels/linear_recurrence/op.h"
#include "kernels/norm/op.h"
#include "kernels/short_convolution/op.h"

namespace longhaul::model {
namespace {

Parameter& added(ParameterSet& parameters, const std::string& name) {
  return parameters.add_stacked(name, {name});
}

}  // namespace

Mamba2::Convolution Mamba2::convolution(ParameterSet& parameters, const std::string& storage,
                                        const std::vector<std::string>& names) {
  std::vector<std::string> weights, biases;
  for (const std::string& each : names) {
    weights.push_back(each + ".weight");
    biases.push_back(each + ".bias");
  }
  Parameter& weight = parameters.add_stacked(storage + ".weight", weights);
  return {&weight, &parameters.add_stacked(storage + ".bias", biases)};
}

Tensor Mamba2::Convolution::run(Context& context, const Tensor& x, const MixerRows* state, const char* name,
                                const layout::SequenceView& view) const {
  const bool remembers = weight->value.size(1) > 1;
  return context.ops.short_convolution(x, weight->use(), bias->use(),
                                       remembers ? convolution_of(state, name) : kernels::ConvolutionStates{},
                                       view, {.silu = true});
}

Mamba2::Mamba2(const recipe::ModelConfig& config, const BlockPlace& place, ParameterSet& parameters)
    : SequenceMixer(place.name),
      state_(config.mamba2.state),
      groups_(config.mamba2.groups),
      head_dim_(config.head_dim),
      eps_(config.mamba2.norm_eps),
      gate_value_step_(parameters, name(), "gate_value_step", {"gate", "value", "step"}, config.bias),
      key_query_(parameters, name(), "key_query", {"key", "query"}, config.bias),
      of_values_(convolution(parameters, name() + ".value_convolution", {name() + ".value_convolution"})),
      of_keys_queries_(convolution(parameters, name() + ".key_query_convolution",
                                   {name() + ".key_convolution", name() + ".query_convolution"})),
      log_rate_(added(parameters, name() + ".log_rate.weight")),
      step_bias_(added(parameters, name() + ".step_bias.weight")),
      skip_(added(parameters, name() + ".skip.weight")),
      norm_(added(parameters, name() + ".norm.weight")),
      output_(parameters, name(), "output", {"output"}, config.bias),
      heads_(gate_value_step_.rows(2)),
      first_head_(gate_value_step_.first_row(2)),
      heads_a_group_(config.heads / config.mamba2.groups),
      normed_channels_(
          config.mamba2.norm_groups > 1 ? config.heads / config.mamba2.norm_groups * config.head_dim : 0) {
  if (normed_channels_ > 0) ones_ = at::ones({normed_channels_}, parameters.wide_options());
}

Tensor Mamba2::normed(Context& context, const Tensor& gated) const {
  if (normed_channels_ == 0) return context.ops.rms_norm(gated, Tensor(), norm_.use(), eps_);
  const Tensor of_groups =
      kernels::rms_norm(gated.view({-1, normed_channels_}), ones_, eps_).view(gated.sizes());
  return of_groups.mul(norm_.use()).to(gated.scalar_type());
}

Tensor Mamba2::of_heads(const Tensor& shared) const {
  const Tensor by_group = shared.view({shared.size(0), groups_, 1, state_});
  if (groups_ == 1) return by_group.squeeze(1).expand({-1, heads_, state_});
  const Tensor all = by_group.expand({-1, groups_, heads_a_group_, state_})
                         .reshape({shared.size(0), groups_ * heads_a_group_, state_});
  return all.narrow(1, first_head_, heads_);
}

Summand Mamba2::summand(Context& context, BlockInput& input, const layout::SequenceView& view,
                        const MixerRows* state) {
  const auto products = [&](const Tensor& rows) {
    return std::vector<Tensor>{gate_value_step_.forward(rows), key_query_.forward(rows)};
  };
  const std::vector<Tensor> made = context.ops.of_gathered(input, products, view);
  const int64_t tokens = made[0].size(0), inner = heads_ * head_dim_;
  const auto parts = made[0].split_with_sizes({inner, inner, heads_}, 1);
  const Tensor x = of_values_.run(context, parts[1], state, "values", view).view({tokens, heads_, head_dim_});
  const auto shared = of_keys_queries_.run(context, made[1], state, "keys_queries", view).chunk(2, 1);

  // A few numbers a token, in fp64: LibTorch's functions round an element by where its threads cut all rows,
  // and fp64 hides it.
  const ScalarType wide = context.precision.reduce;
  const Tensor step = at::softplus(parts[2].to(at::kDouble) + step_bias_.use().to(at::kDouble));
  const Tensor log_decay = step.mul(log_rate_.use().to(at::kDouble).exp().neg()).to(wide);
  const Tensor v = x.mul(step.to(x.scalar_type()).unsqueeze(2));
  const Tensor o = context.ops.linear_recurrence(of_heads(shared[1]), of_heads(shared[0]), v, log_decay,
                                                 recurrence_of(state), view, {});
  const Tensor y = o + x.mul(skip_.use().to(x.scalar_type()).unsqueeze(1));
  const Tensor gated = kernels::gated(y.reshape({tokens, inner}), parts[0], kernels::FeatureMap::kSilu);
  return output_.summand(context, normed(context, gated));
}

}  // namespace longhaul::model
