#include "model/mixers/lightning_attention.h"

#include <cmath>

#include "kernels/activation/op.h"
#include "kernels/linear_recurrence/cpu/narrow_state.h"
#include "kernels/linear_recurrence/op.h"
#include "tensor/to_tensor.h"

namespace longhaul::model {

std::vector<double> geometric_slopes(int64_t heads, bool plain_formula) {
  const auto geometric = [](int64_t count, int64_t h) {
    return std::exp2(-8.0 * static_cast<double>(h + 1) / static_cast<double>(count));
  };
  int64_t power = 1;
  while (power * 2 <= heads) power *= 2;
  std::vector<double> slopes;
  const bool plain = plain_formula || power == heads;
  for (int64_t h = 0; h < heads; ++h) {
    slopes.push_back(plain       ? geometric(heads, h)
                     : h < power ? geometric(power, h)
                                 : geometric(2 * power, 2 * (h - power)));
  }
  return slopes;
}

std::vector<double> lightning_slopes(int64_t heads, int64_t layer, int64_t layers,
                                     const recipe::LightningOptions& options) {
  constexpr double kEpsilon = 1e-5;
  const double denominator = static_cast<double>(layers - 1) +
                             (options.layer_factor == recipe::LayerFactor::kHuggingFace ? kEpsilon : 0);
  const double scale = (layers <= 1 ? 1.0 : 1.0 - static_cast<double>(layer) / denominator) + kEpsilon;
  std::vector<double> slopes = geometric_slopes(heads, options.plain_slopes());
  for (double& slope : slopes) slope *= scale;
  return slopes;
}

LightningAttention::LightningAttention(const recipe::ModelConfig& config, const BlockPlace& place,
                                       ParameterSet& parameters)
    : SequenceMixer(place.name),
      head_dim_(config.head_dim),
      eps_(config.lightning.norm_eps),
      state_(config.lightning.state),
      silu_wide_(config.lightning.silu_wide),
      qkv_(parameters, name(), "qkv", {"query", "key", "value"}, config.bias),
      gate_(parameters, name(), "gate", {"gate"}, config.bias),
      output_(parameters, name(), "output", {"output"}, config.bias),
      heads_(qkv_.rows(0) / head_dim_),
      norm_(parameters.add_stacked(name() + ".norm.weight", {name() + ".norm.weight"})) {
  std::vector<double> slopes = lightning_slopes(config.heads, place.layer, config.layers, config.lightning);
  for (double& slope : slopes) slope = -slope;
  const auto first = slopes.begin() + qkv_.first_row(0) / head_dim_;
  slopes = {first, first + heads_};
  // Slopes are never rounded to the model's dtype: bf16 would change horizons by up to 0.4 %.
  log_decay_h_ = at::tensor(slopes, at::kDouble).to(parameters.wide_options());
}

Summand LightningAttention::summand(Context& context, BlockInput& input, const layout::SequenceView& view,
                                    const MixerRows* state) {
  const auto products = [&](const Tensor& rows) {
    return std::vector<Tensor>{qkv_.forward(rows), gate_.forward(rows)};
  };
  const std::vector<Tensor> made = context.ops.of_gathered(input, products, view);
  const auto widened = [&](const Tensor& x) { return silu_wide_ ? x.to(context.precision.reduce) : x; };
  const kernels::Heads heads = kernels::silu_heads(widened(made[0]), heads_, heads_, head_dim_);
  const Tensor o_thd =
      state_ == recipe::LightningState::kModel
          ? kernels::narrow_state_recurrence(heads.q_thd, heads.k_thd, heads.v_thd, log_decay_h_,
                                             recurrence_of(state), to_tensor(view.layout.document_offsets))
          : context.ops.linear_recurrence(heads.q_thd, heads.k_thd, heads.v_thd, log_decay_h_,
                                          recurrence_of(state), view, {});
  const Tensor o = o_thd.reshape({o_thd.size(0), heads_ * head_dim_});
  return output_.summand(
      context, context.ops.rms_norm(o, widened(made[1]), norm_.use(), eps_).to(made[1].scalar_type()));
}

}  // namespace longhaul::model
