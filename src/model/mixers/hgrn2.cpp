#include "model/mixers/hgrn2.h"

#include "kernels/activation/op.h"
#include "kernels/linear_recurrence/op.h"
#include "model/shared_parameter.h"

namespace longhaul::model {
Hgrn2::Hgrn2(const recipe::ModelConfig& config, const BlockPlace& place, ParameterSet& parameters)
    : SequenceMixer(place.name),
      layer_(place.layer),
      keys_(config.hgrn2.key_channels(config.head_dim)),
      values_(config.head_dim),
      eps_(config.hgrn2.norm_eps),
      queries_gates_values_(parameters, name(), "query_forget_value", {"query", "forget", "value"},
                            config.bias),
      output_(parameters, name(), "output", {"output"}, config.bias),
      norm_(parameters.add_stacked(name() + ".norm.weight", {name() + ".norm.weight"})),
      bounds_(shared_parameter(parameters, "hgrn2.lower_bounds.weight")) {}

Tensor Hgrn2::lower_bound_hk() const {
  const Tensor bound_c = at::softmax(bounds_.use(), 0).narrow(0, 1, layer_).sum(0);
  // Rounding may make a sum of shares 1, and such a gate would never write again: cut back to just below,
  // with the gradient as it is.
  constexpr double kBelowOne = 1 - 0x1p-24;
  return bound_c.sub(bound_c.detach().sub(kBelowOne).clamp_min(0)).view({-1, keys_});
}

Summand Hgrn2::summand(Context& context, BlockInput& input, const layout::SequenceView& view,
                       const MixerRows* state) {
  const auto product = [&](const Tensor& rows) {
    return std::vector<Tensor>{queries_gates_values_.forward(rows)};
  };
  const Tensor made = context.ops.of_gathered(input, product, view)[0];
  const int64_t tokens = made.size(0), heads = norm_.value.size(0) / values_;
  const auto parts = made.split_with_sizes({heads * keys_, heads * keys_, heads * values_}, 1);
  // Decoding: LibTorch's silu rounds an element by where its threads cut all rows, so a sequence would depend
  // on those beside it.
  const Tensor q_thk = state == nullptr ? at::silu(parts[0]).view({tokens, heads, keys_})
                                        : kernels::silu_heads(parts[0].contiguous(), heads, 0, keys_).q_thd;
  const Tensor o = context.ops.linear_recurrence(
      q_thk, Tensor(), parts[2].view({tokens, heads, values_}), parts[1].view({tokens, heads, keys_}),
      recurrence_of(state), view,
      {.tied_keys = true,
       .gate = {.kind = kernels::RecurrenceGate::Kind::kLowerBounded, .lower_bound_hk = lower_bound_hk()}});
  const Tensor y = context.ops.rms_norm(o.reshape({tokens, heads * values_}), Tensor(), norm_.use(), eps_);
  return output_.summand(context, y);
}

}  // namespace longhaul::model
