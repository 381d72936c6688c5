// feed_forward: the channel mixer y = act(x Wᵤᵀ + bᵤ) W_dᵀ + b_d, dense or for rows sorted by expert, with
// act
//
//   gelu    tanh form; Wᵤ [F, in]
//   swiglu  silu(gate) · up, gate and up next to each other: Wᵤ [2F, in]                     (arXiv
//                                                                                            2002.05202)
//
// fused (CPU, bf16 and fp32, packed weights): the activation is the epilogue of the first product, and its
// derivative is that of the product that computes its gradient, block by block while these are in cache;
// the gradient of the activation is never in memory. composed, for everything else: linear, activation,
// linear, each of which chooses its implementation. Both give the same bits for y and the gradients of x
// and of the weights; the gradient of gelu's bias is summed from dz as stored by the fused form, from
// unrounded dz by the composed form. dispatch.h records the choice as feed_forward or grouped_feed_forward.
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

// x [tokens, in] → [tokens, out]. Differentiable in x; the gradients of weights and biases are added to the
// sinks.
Tensor feed_forward(const Tensor& x_td, Activation activation, const LinearWeights& up,
                    const LinearWeights& down);
// x [rows, in] sorted by expert, weights [experts, out, in], no biases.
Tensor grouped_feed_forward(const Tensor& x_rd, const std::vector<int64_t>& rows_per_expert,
                            Activation activation, const LinearWeights& up, const LinearWeights& down);

}  // namespace longhaul::kernels
