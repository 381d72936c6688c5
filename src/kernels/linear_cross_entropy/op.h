// linear_cross_entropy: output head and loss without ever holding the logits of all tokens.
//
//   z_t = W h_t (fp32; fp64 for fp64 inputs),  ℓ_t = logsumexp(z_t) − z_t[label_t] + z_loss · logsumexp(z_t)²
//
// over tokens with label ≥ 0; tokens without a label cost nothing. If gradients are wanted, they are
// computed in the forward pass, while the logits of a few tokens are available; the backward pass only
// scales them. So the forward pass already adds to the weight's sink the gradient that follows from the
// gradient `upstream` of the sum: a trainer that calls backward once with 1 has no further cost. Another
// gradient, or a second backward pass, also gives the right result, by computing the weight's gradient a
// second time.
//
// On a GPU the host waits in the backward pass, for the gradient of the sum where it is not a KnownGradient,
// and in linear_cross_entropy, for the number of labels.
//
// Implementations, in the order in which they are tried: cuda (bf16, on a GPU: LibTorch's products and our
// kernels of loss and gradients on the logits of `chunk` tokens), fused (CPU, bf16 and fp32: one pass over
// blocks of tokens × vocabulary that stay in cache), aten (LibTorch's products on the logits of `chunk`
// tokens; every dtype, any device). In addition reference (plain loops in fp64), for comparison. The result
// does not depend on the number of threads.
#pragma once

#include "kernels/dispatch.h"
#include "kernels/gradient_sink.h"
#include "kernels/matmul/packed_weight.h"
#include "tensor/tensor.h"

namespace longhaul::kernels {

// The number of vocabulary entries that the fused form processes at once: the k chunk of the weight's
// packed copy for dz W.
inline constexpr int64_t kHeadChunk = 256;

// The tokens whose logits exist at once where nobody says how many: on a CPU kHeadTokens, whose logits stay
// small; on a GPU as many as kHeadBytes hold, in fp32 with their gradients in bf16, because a product of few
// rows leaves most of it idle.
inline constexpr int64_t kHeadTokens = 512, kHeadBytes = int64_t{3} << 29;
int64_t head_chunk(const Tensor& hidden_td, int64_t vocabulary);

struct LinearCrossEntropyOptions {
  double z_loss = 0;
  int64_t chunk = 0;    // tokens whose logits, or probabilities, exist at once; 0: what suits the device
  double upstream = 1;  // the expected gradient of the sum
};

// hidden_td [tokens, hidden], weight_vd [vocabulary, hidden], labels_t int64 [tokens] (−1: no loss), sink:
// for the weight's gradient. Returns a scalar, fp32 (fp64 for fp64 inputs), differentiable in hidden.
// `kept`: the weight's packed copies; without them the fused form packs the weight at each call.
Tensor linear_cross_entropy_sum(const Tensor& hidden_td, const Tensor& weight_vd, const Tensor& labels_t,
                                const GradientSink& sink, const LinearCrossEntropyOptions& options = {},
                                KeptPacked kept = {});
// The loss of every token, [tokens], 0 without label; no gradient.
Tensor linear_cross_entropy_each(const Tensor& hidden_td, const Tensor& weight_vd, const Tensor& labels_t,
                                 const LinearCrossEntropyOptions& options = {}, KeptPacked kept = {});
// The mean over tokens with a label (0 when there is none), differentiable in hidden and weight.
Tensor linear_cross_entropy(const Tensor& hidden_td, const Tensor& weight_vd, const Tensor& labels_t,
                            double z_loss);

}  // namespace longhaul::kernels
