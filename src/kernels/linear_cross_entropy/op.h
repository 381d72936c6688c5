// linear_cross_entropy: output head and loss without ever holding the logits of all tokens.
//
//   z_t = W h_t (fp32; fp64 for fp64 inputs),  ℓ_t = logsumexp(z_t) − z_t[label_t] + z_loss · logsumexp(z_t)²
//
// over tokens with label ≥ 0; tokens without one cost nothing. Where gradients are wanted, they are computed in the forward pass, while
// the logits of a few tokens are at hand; the backward pass only scales. So the forward pass already adds to the weight's sink what
// the gradient `upstream` of the sum makes of it: a trainer, which calls backward once with 1, pays nothing more. Another gradient, or a
// second backward pass, is answered rightly too, by a second computation of the weight's gradient.
//
// On a GPU the host waits in the backward pass, for the gradient of the sum, and in linear_cross_entropy, for the number of labels.
//
// Implementations, in the order they are asked: cuda (bf16, on a GPU: products and logits of `chunk` tokens), fused (CPU, bf16 and fp32: one
// pass over blocks of tokens × vocabulary that stay in cache), aten (LibTorch's products on the logits of `chunk` tokens; every dtype, any
// device). And reference (plain loops in fp64), to compare with. The result does not depend on the number of threads.
#pragma once

#include "kernels/dispatch.h"
#include "kernels/gradient_sink.h"
#include "kernels/matmul/packed_weight.h"
#include "tensor/tensor.h"

namespace longhaul::kernels {

// Words of the vocabulary at once in the fused form: the chunks of k that the weight's packed copy for dz W has.
inline constexpr int64_t kHeadChunk = 256;

struct LinearCrossEntropyOptions {
  double z_loss = 0;
  int64_t chunk = 512;  // tokens whose logits, or probabilities, exist at once
  double upstream = 1;  // the gradient that the sum will be given
};

// hidden_td [tokens, hidden], weight_vd [vocabulary, hidden], labels_t int64 [tokens] (−1: no loss), sink: of the weight. Result: scalar, fp32 (fp64 for fp64 inputs). Differentiable in hidden. `kept`: the weight's packed
// copies; without them the fused form packs the weight at each call.
Tensor linear_cross_entropy_sum(const Tensor& hidden_td, const Tensor& weight_vd, const Tensor& labels_t, const GradientSink& sink,
                                const LinearCrossEntropyOptions& options = {}, KeptPacked kept = {});
// The loss of every token, [tokens], 0 without label; no gradient.
Tensor linear_cross_entropy_each(const Tensor& hidden_td, const Tensor& weight_vd, const Tensor& labels_t,
                                 const LinearCrossEntropyOptions& options = {}, KeptPacked kept = {});
// The mean over tokens with a label (0 when there is none), differentiable in hidden and weight.
Tensor linear_cross_entropy(const Tensor& hidden_td, const Tensor& weight_vd, const Tensor& labels_t, double z_loss);

}  // namespace longhaul::kernels
