// Linear attention for data without an order, mainly images and video: every token reads what all tokens of
// its document wrote. This is LightNet's additive recurrence without causality (arXiv 2405.21022;
// docs/sources/linear-attention.md §8.1, §8.2):
//
//   K = softmax of the logits x over a document's tokens, for each key channel        S = Kᵀ V        O = Q S
//
// It needs two products and no scan. A recurrence with multiplicative decays must run along a sequence once
// in each direction, or along each axis of a grid in both directions; here one sum is enough, because the
// normalising sum of an additive recurrence does not depend on where it began. Sums, the softmax and S are
// fp32 (fp64 for fp64 inputs); results have the dtype of their inputs. S is kept for the backward pass.
// Implementations: cpu (vector loops and block products, cpu.h; attention in bf16 and fp32), meta, aten
// (LibTorch's operators, any device).
#pragma once

#include "tensor/tensor.h"

namespace longhaul::kernels {

// x_tc [T, C]; offsets: int64 [N+1] on the CPU, document boundaries, or undefined (one document). Returns
// [T, C], which sums to 1 over each document.
Tensor segment_softmax(const Tensor& x_tc, const Tensor& offsets);

// q_thk, k_thk [T, H, Dk], v_thv [T, H, Dv] → [T, H, Dv]. Differentiable.
Tensor bidirectional_attention(const Tensor& q_thk, const Tensor& k_thk, const Tensor& v_thv,
                               const Tensor& offsets);

}  // namespace longhaul::kernels
