#include "model/mixers/mixture.h"

#include "kernels/norm/op.h"
#include "model/mixers/mixers.h"

namespace longhaul::model {

Mixture::Mixture(const recipe::ModelConfig& config, const BlockPlace& place, ParameterSet& parameters)
    : SequenceMixer(place.name), eps_(config.norm_eps) {
  const auto add = [&](const std::string& tensor) {
    return &parameters.add_stacked(name() + tensor, {name() + tensor});
  };
  softmax_.mixer =
      make_mixer(recipe::Mixer::kSoftmax, config, {place.layer, name() + ".softmax"}, parameters);
  linear_.mixer = make_mixer(config.mixture.linear, config, {place.layer, name() + ".linear"}, parameters);
  if (config.mixture.norm) {
    softmax_.norm = add(".softmax_norm.weight");
    linear_.norm = add(".linear_norm.weight");
  }
  if (config.mixture.learned_weights) weights_ = add(".weights.weight");
}

Tensor Mixture::made_by(const Branch& branch, Context& context, BlockInput& input,
                        const layout::SequenceView& view, const MixerRows* state) const {
  const Tensor made = context.ops.summed(input, {branch.mixer->summand(context, input, view, state)}, view);
  return branch.norm != nullptr ? kernels::rms_norm(made, branch.norm->use(), eps_) : made;
}

Summand Mixture::summand(Context& context, BlockInput& input, const layout::SequenceView& view,
                         const MixerRows* state) {
  const Tensor softmax = made_by(softmax_, context, input, view, state),
               linear = made_by(linear_, context, input, view, state);
  if (weights_ == nullptr) return {.own_td = softmax + linear};
  const Tensor weights = weights_->use().to(softmax.scalar_type());
  return {.own_td = softmax * weights[0] + linear * weights[1]};
}

}  // namespace longhaul::model
