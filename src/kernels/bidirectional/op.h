// Linear attention of data without an order, images and video above all: every token reads what all tokens of its document wrote, LightNet's additive
// recurrence without causality (arXiv 2405.21022; docs/sources/linear-attention.md §8.1, §8.2):
//
//   K = softmax of the logits x over a document's tokens, for each key channel        S = Kᵀ V        O = Q S
//
// Two products and no scan: what runs along a sequence once in each direction, or along each axis of a grid in both, where decays multiply, is here
// one sum, because the sum that normalises an additive recurrence does not know where it began. Sums, the softmax's and S are fp32 (fp64 for fp64
// inputs); results have the dtype of their inputs. S is kept for the backward pass. Implementations: cpu (vector loops and block products, cpu.h;
// attention in bf16 and fp32), meta, aten (LibTorch's operators, any device).
#pragma once

#include "tensor/tensor.h"

namespace longhaul::kernels {

// x_tc [T, C]; offsets: int64 [N+1] on the CPU, document boundaries, or undefined (one document) → [T, C], which adds up to 1 over each document.
Tensor segment_softmax(const Tensor& x_tc, const Tensor& offsets);

// q_thk, k_thk [T, H, Dk], v_thv [T, H, Dv] → [T, H, Dv]. Differentiable.
Tensor bidirectional_attention(const Tensor& q_thk, const Tensor& k_thk, const Tensor& v_thv, const Tensor& offsets);

}  // namespace longhaul::kernels
