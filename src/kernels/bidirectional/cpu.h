// Attention without an order on the CPU. Each head of a document is a work item, whose keys, values and
// queries pass through the caches once for each of the two products (gemm/block.h), 256 tokens at a time.
// Operands are bf16 or fp32 like the inputs, sums fp32; S is rounded to bf16 before the queries read it, as
// every operand is. Results do not depend on the number of threads.
#pragma once

#include <vector>

#include "tensor/tensor.h"

namespace longhaul::kernels {

// All [T, H, …], bf16 or fp32, with channels side by side. `state_nhkv` fp32 [documents, H, Dk, Dv]: made,
// then read by the backward pass.
struct SetAttention {
  Tensor q_thk, k_thk, v_thv, state_nhkv;
  std::vector<int64_t> offsets;
};
// → o, and the state's values
Tensor set_attention_cpu(const SetAttention& in);
std::vector<Tensor> set_attention_backward_cpu(const SetAttention& in, const Tensor& d_o);  // → dq, dk, dv

}  // namespace longhaul::kernels
