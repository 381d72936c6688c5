// The raw level of linear_cross_entropy: the terms from which a loss, or a reward, is made, for each token,
// without ever holding the logits of all tokens.
//
//   z_t = W h_t / T,   L_t = logsumexp(z_t),   p_tv = e^{z_tv − L_t},   H_t = − Σ_v p_tv log p_tv
//   log p(label_t) = z_t[label_t] − L_t                                        T: the temperature of sampling
//   dz_tv = p_tv (dL_t − dH_t (log p_tv + H_t)) + [v = label_t] d_label_t,   dh = Wᵀ dz / T,
//   dW += dz hᵀ / T
//
// The backward pass takes L and H as arguments, so the rows of W may be divided over ranks: L and H are then
// those of all ranks (parallel/vocabulary.cpp). Labels below 0 have a logit of 0 without a gradient.
// Implementations, in the order in which they are tried: cuda (bf16, on a GPU), fused (CPU, bf16 and fp32),
// meta, aten (LibTorch's products on the logits of `chunk` tokens), reference (plain loops in fp64).
#pragma once

#include <functional>

#include "kernels/linear_cross_entropy/op.h"

namespace longhaul::kernels {

// [tokens] fp32 (fp64) each: L, the label's logit and H; or the gradients of the three. entropy_t undefined:
// not asked for.
struct TokenLogits {
  Tensor logsumexp_t, label_t, entropy_t{};
};

struct TokenLogitsInputs {
  Tensor hidden_td, weight_vd, labels_t;  // labels int64, below the rows of the weight
  int64_t chunk = 0;       // tokens whose logits, or their gradients, exist at once; 0: head_chunk
  KeptPacked kept = {};    // of weight_vd
  double temperature = 1;  // that the logits are divided by, above 0
};

TokenLogits token_logits(const TokenLogitsInputs& in, bool with_entropy = false);
// `of`: L and, where its gradient is given, H; the label's logit is not used. d_hidden_td, dtype of hidden,
// is written; sink_vd is added to; either may be undefined: not wanted.
void token_logits_backward(const TokenLogitsInputs& in, const TokenLogits& of, const TokenLogits& gradients,
                           const Tensor& d_hidden_td, const Tensor& sink_vd);

// The weight's gradient to a sink: with d_hidden, from the same logits, where it is added at once; where its
// product waits, the logits are made again then.
void token_logits_backward_to_sink(const TokenLogitsInputs& in, const TokenLogits& of,
                                   const TokenLogits& gradients, const Tensor& d_hidden_td,
                                   const GradientSink& sink);

}  // namespace longhaul::kernels
