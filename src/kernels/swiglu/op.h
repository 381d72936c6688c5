// swiglu: y = silu(gate) · up, where a row of x holds gate and up side by side (one product computes both). Each operator computes
// in fp32 (fp64 for fp64 inputs) and rounds to the dtype of x: in bf16 first silu(gate), then y. Differentiable. Backward
// (σ = sigmoid(gate)): dup = dy · silu(gate), dgate = dy · up · σ (1 + gate (1 − σ)).
#pragma once

#include "tensor/tensor.h"

namespace longhaul::kernels {

Tensor swiglu(const Tensor& x_t2f);            // [tokens, 2·F], gate first → [tokens, F]
Tensor swiglu_reference(const Tensor& x_t2f);  // ATen operators under autograd

}  // namespace longhaul::kernels
