// ToeplitzPositions: the Toeplitz position encoding of the embeddings (recipe/architecture/toeplitz.h), y_t,c
// = Σ_s κ_c(t − s) x_s,c with κ_c a sum of learned exponentials; along each axis of documents that are grids.
// Tensor ranks have some channels each: own tokens are gathered, as before a mixer's first product, and their
// sums over all channels come back as behind its last one.
#pragma once

#include <vector>

#include "model/module.h"

namespace longhaul::model {

class ToeplitzPositions : public Module {
 public:
  ToeplitzPositions(const recipe::ModelConfig& config, ParameterSet& parameters);
  // [own tokens, hidden] → likewise. state: null when training; else read and advanced.
  Tensor forward(Context& context, const Tensor& hidden_td, const layout::SequenceView& view,
                 const MixerRows* state) const;

 private:
  Tensor along_axes(const Tensor& x_tc, const layout::SequenceView& view) const;

  std::vector<int64_t> grid_;  // empty: documents are rows
  int64_t places_;             // on it
  Parameter& coefficient_;     // B, of this rank's channels
  Parameter& rate_;            // r: λ = exp(−e^r)
  int64_t first_channel_;
};

}  // namespace longhaul::model
