// HGRN (arXiv 2311.04823; docs/sources/linear-attention.md §5.1): every channel a recurrence of its own, of
// complex numbers that turn by a fixed angle a token and are kept by a gate that the layer's depth bounds
// from below:
//
//   c = silu(h Wc)    λ = γ_l + (1 − γ_l) σ(h Wf)    g = silu(h Wg)
//   s_t = λ_t e^{iθ} s_{t−1} + (1 − λ_t) c_t         out = (LayerNorm([Re s, Im s]) ⊙ g) Wout
//
//   γ_l = Σ_{i<l} softmax(Γ)_i over the layers, for each channel; γ_0 = 0
//
// Computed in a frame that turns with the tokens: e^{−iθt} s_t is a real recurrence (kernels/scan), so
// turning forth and back is all that the complex numbers cost. A head's channels are its real parts and then
// its imaginary ones; model.hgrn.complex = false has real ones alone.
#pragma once

#include "model/linear.h"
#include "model/module.h"
#include "recipe/architecture/model_config.h"

namespace longhaul::model {

class Hgrn final : public SequenceMixer {
 public:
  Hgrn(const recipe::ModelConfig& config, const BlockPlace& place, ParameterSet& parameters);
  Summand summand(Context& context, BlockInput& input, const layout::SequenceView& view,
                  const MixerRows* state) override;

 private:
  struct Turns {
    Tensor cos_tr, sin_tr;
  };
  Turns turns(Context& context, const layout::SequenceView& view, const Tensor& like) const;

  int64_t layer_, head_dim_, parts_;
  double eps_;
  Linear products_;
  Parameter* frequencies_ = nullptr;
  Parameter &norm_, &bounds_;
  Linear output_;
  int64_t heads_;
};

}  // namespace longhaul::model
