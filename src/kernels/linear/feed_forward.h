// feed_forward: the channel mixer y = act(x Wᵤᵀ + bᵤ) W_dᵀ + b_d, dense or for rows sorted by expert, with act
//
//   gelu    tanh form; Wᵤ [F, in]
//   swiglu  silu(gate) · up, gate and up side by side: Wᵤ [2F, in]                     (arXiv 2002.05202)
//
// fused (CPU, bf16 and fp32, packed weights): the activation is the epilogue of the first product, its slope that of the product that gives
// its gradient, block by block while these lie in cache; the gradient of the activation never is in memory. composed, for everything else:
// linear, activation, linear, each of which chooses for itself. Both give the same bits for y and the gradients of x and of the weights; gelu's
// bias gradient is summed from dz as it is stored by the one, from unrounded dz by the other. dispatch.h records the choice as feed_forward
// or grouped_feed_forward.
#pragma once

#include "kernels/linear/op.h"

namespace longhaul::kernels {

enum class Activation { kGelu, kSwiglu };

// One layer of it; the tensors as in linear.
struct LinearWeights {
  Tensor weight, bias;  // bias: undefined without
  LinearSinks sinks;
  KeptPacked kept;
};

// x [tokens, in] → [tokens, out]. Differentiable in x; the gradients of weights and biases are added to the sinks.
Tensor feed_forward(const Tensor& x_td, Activation activation, const LinearWeights& up, const LinearWeights& down);
// x [rows, in] sorted by expert, weights [experts, out, in], no biases.
Tensor grouped_feed_forward(const Tensor& x_rd, const std::vector<int64_t>& rows_per_expert, Activation activation, const LinearWeights& up,
                            const LinearWeights& down);

}  // namespace longhaul::kernels
