// The raw level of linear_cross_entropy: the terms from which a loss, or a reward, is made, for each token,
// without ever holding the logits of all tokens.
//
//   z_t = W h_t,   L_t = logsumexp(z_t),   z_t[label_t]          log p(label_t) = z_t[label_t] − L_t
//   dz_tv = dL_t e^{z_tv − L_t} + [v = label_t] d_label_t,   dh = Wᵀ dz,   dW += dz hᵀ
//
// The backward pass takes L as an argument, so the rows of W may be divided over ranks: L is then that of
// all ranks (parallel/vocabulary.cpp). Labels below 0 have a logit of 0 without a gradient. Fused on the
// CPU for bf16 and fp32; other cases use LibTorch's products on the logits of `chunk` tokens.
#pragma once

#include "kernels/linear_cross_entropy/op.h"

namespace longhaul::kernels {

struct TokenLogits {
  Tensor logsumexp_t, label_t;  // [tokens] fp32 (fp64): L, and the label's logit; or the gradients of both
};

struct TokenLogitsInputs {
  Tensor hidden_td, weight_vd, labels_t;  // labels int64, below the rows of the weight
  int64_t chunk = 512;                    // tokens whose logits, or their gradients, exist at once
  KeptPacked kept = {};                   // of weight_vd
};

TokenLogits token_logits(const TokenLogitsInputs& in);
// logsumexp_t: L. d_hidden_td, dtype of hidden, is written; sink_vd is added to; either may be undefined: not wanted.
void token_logits_backward(const TokenLogitsInputs& in, const Tensor& logsumexp_t, const TokenLogits& gradients, const Tensor& d_hidden_td,
                           const Tensor& sink_vd);

// The weight's gradient to a sink: with d_hidden, from the same logits, where it is added at once; where its product waits, the logits are made again then.
void token_logits_backward_to_sink(const TokenLogitsInputs& in, const Tensor& logsumexp_t, const TokenLogits& gradients,
                                   const Tensor& d_hidden_td, const GradientSink& sink);

// log p(label) of each token, 0 without label: [tokens] fp32 (fp64), differentiable in hidden; the weight's gradient goes to the sink.
Tensor label_log_probabilities(const TokenLogitsInputs& in, const GradientSink& sink);

}  // namespace longhaul::kernels
