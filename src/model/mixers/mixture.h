// A softmax branch and a linear one beside each other (SpikingBrain-76B, arXiv 2509.05276 §2;
// docs/sources/spikingbrain.md §2.2), both of the layer's normed input h:
//
//   out = w₁ RMSNorm(softmax(h)) + w₂ RMSNorm(linear(h))
//   w 1, or learned; the norms may be left out (recipe/mixers/mixture.h)
//
// The branches are the mixers that layers of one kind have, whole, their output matrices included; the norms
// are over the hidden channels, so each branch is summed over tensor ranks before. Decoding, a layer keeps
// the states of both.
#pragma once

#include <memory>

#include "model/module.h"
#include "recipe/architecture/model_config.h"

namespace longhaul::model {

class Mixture final : public SequenceMixer {
 public:
  Mixture(const recipe::ModelConfig& config, const BlockPlace& place, ParameterSet& parameters);
  Summand summand(Context& context, BlockInput& input, const layout::SequenceView& view,
                  const MixerRows* state) override;

 private:
  struct Branch {
    std::unique_ptr<SequenceMixer> mixer;
    Parameter* norm = nullptr;  // null: none
  };
  Tensor made_by(const Branch& branch, Context& context, BlockInput& input, const layout::SequenceView& view,
                 const MixerRows* state) const;

  double eps_;
  Branch softmax_, linear_;
  Parameter* weights_ = nullptr;  // [2]; null: ones
};

}  // namespace longhaul::model
