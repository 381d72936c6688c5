// linear_cross_entropy: output head and loss without ever holding the logits of all tokens.
//
//   z_t = W h_t (fp32; fp64 for fp64 inputs),  ℓ_t = logsumexp(z_t) − z_t[label_t] + z_loss · logsumexp(z_t)²
//
// summed over tokens with label ≥ 0. Tokens are taken in chunks; where gradients are wanted, those of a chunk are computed while its
// logits are at hand, so the backward pass only scales. Differentiable in hidden; the gradient of the weight goes to its sink.
#pragma once

#include "tensor/tensor.h"

namespace longhaul::kernels {

struct LinearCrossEntropyOptions {
  double z_loss = 0;
  int64_t chunk = 1024;  // tokens whose logits exist at once
};

// hidden_td [tokens, hidden], weight_vd [vocabulary, hidden], labels_t int64 [tokens] (−1: no loss), sink_vd: gradient of the weight is
// added there. Result: scalar, fp32 (fp64 for fp64 inputs).
Tensor linear_cross_entropy_sum(const Tensor& hidden_td, const Tensor& weight_vd, const Tensor& labels_t, const Tensor& sink_vd,
                                const LinearCrossEntropyOptions& options = {});
// The loss of every token, [tokens], 0 without label; no gradient.
Tensor linear_cross_entropy_each(const Tensor& hidden_td, const Tensor& weight_vd, const Tensor& labels_t,
                                 const LinearCrossEntropyOptions& options = {});
Tensor linear_cross_entropy_reference(const Tensor& hidden_td, const Tensor& weight_vd, const Tensor& labels_t, double z_loss);

}  // namespace longhaul::kernels
