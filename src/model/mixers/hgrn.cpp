#include "model/mixers/hgrn.h"

#include "kernels/feature_maps/op.h"
#include "kernels/scan/op.h"
#include "model/shared_parameter.h"
#include "tensor/to_tensor.h"

namespace longhaul::model {
Hgrn::Hgrn(const recipe::ModelConfig& config, const BlockPlace& place, ParameterSet& parameters)
    : SequenceMixer(place.name),
      layer_(place.layer),
      head_dim_(config.head_dim),
      parts_(config.hgrn.parts()),
      eps_(config.hgrn.norm_eps),
      products_(parameters, name(), "value_forget_gate", {"value", "forget", "gate"}, config.bias),
      frequencies_(config.hgrn.complex ? &parameters.add_stacked(name() + ".frequencies.weight",
                                                                 {name() + ".frequencies.weight"})
                                       : nullptr),
      norm_(parameters.add_stacked(name() + ".norm.weight", {name() + ".norm.weight"})),
      bounds_(shared_parameter(parameters, "hgrn.lower_bounds.weight")),
      output_(parameters, name(), "output", {"output"}, config.bias),
      heads_(products_.rows(1) / head_dim_) {}

Hgrn::Turns Hgrn::turns(Context& context, const layout::SequenceView& view, const Tensor& like) const {
  const Tensor t = to_tensor(view.positions_of_axis(0), like.device()).to(at::kDouble);
  const Tensor angles = at::outer(t, frequencies_->use().to(at::kDouble));
  return {angles.cos().to(context.precision.reduce), angles.sin().to(context.precision.reduce)};
}

Summand Hgrn::summand(Context& context, BlockInput& input, const layout::SequenceView& view,
                      const MixerRows* state) {
  using kernels::FeatureMap;
  using kernels::Turn;
  const auto product = [&](const Tensor& rows) { return std::vector<Tensor>{products_.forward(rows)}; };
  const Tensor made = context.ops.of_gathered(input, product, view)[0];
  const int64_t tokens = made.size(0), channels = heads_ * head_dim_, numbers = parts_ * channels;
  const auto parts = made.split_with_sizes({numbers, channels, numbers}, 1);
  const Turns turn = frequencies_ != nullptr ? turns(context, view, made) : Turns{};
  const auto turned = [&](const Tensor& x, FeatureMap map, double direction) {
    if (frequencies_ == nullptr && map == FeatureMap::kNone) return x;
    if (frequencies_ == nullptr) return kernels::features(x, heads_, map).view({tokens, numbers});
    return kernels::features(x, heads_, map, Turn::kRotary, {turn.cos_tr, turn.sin_tr.mul(direction)})
        .view({tokens, numbers});
  };
  // λ and 1 − λ in fp32, for the real and the imaginary part alike.
  const Tensor bound_c = at::softmax(bounds_.use(), 0).narrow(0, 0, layer_).sum(0);
  const Tensor open = kernels::features(parts[1].to(norm_.value.scalar_type()), heads_, FeatureMap::kSigmoid)
                          .view({tokens, channels});
  const Tensor writes = (1 - bound_c) * (1 - open), keeps = 1 - writes;
  const auto of_parts = [&](const Tensor& x) {
    return x.view({tokens, heads_, 1, head_dim_})
        .expand({tokens, heads_, parts_, head_dim_})
        .reshape({tokens, numbers});
  };
  const Tensor written = turned(parts[0], FeatureMap::kSilu, -1) * of_parts(writes).to(made.scalar_type());
  const Tensor sums = context.ops.decayed_sum(of_parts(keeps), written, scan_of(state, "sums"), view);
  const Tensor normed = context.ops.layer_norm(turned(sums, FeatureMap::kNone, 1), norm_.use(), eps_);
  return output_.summand(context, kernels::gated(normed, parts[2], FeatureMap::kSilu));
}

}  // namespace longhaul::model
