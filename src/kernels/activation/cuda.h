// Activations on a GPU (equations: op.h): swiglu, silu and bias + GeLU (tanh form), forward and backward.
// bf16 in and out, fp32 inside, biases and their gradients fp32. Everything is deterministic.
#pragma once

#include "kernels/cuda/numbers.h"

namespace longhaul::kernels::cuda {

// x [rows, 2 width] holds gate and up side by side; y [rows, width].
void swiglu_forward(const Bf16* x, Bf16* y, int64_t rows, int64_t width, Stream stream);
void swiglu_backward(const Bf16* x, const Bf16* d_y, Bf16* d_x, int64_t rows, int64_t width, Stream stream);

// n values; in place is allowed.
void silu_forward(const Bf16* x, Bf16* y, int64_t n, Stream stream);
void silu_backward(const Bf16* x, const Bf16* d_y, Bf16* d_x, int64_t n, Stream stream);

// x [rows, width], bias [width] or null. The gradient of the bias, where d_bias is given, is added to it.
void bias_gelu_forward(const Bf16* x, const float* bias, Bf16* y, int64_t rows, int64_t width, Stream stream);
int64_t bias_workspace_bytes(int64_t rows, int64_t width);
void bias_gelu_backward(const Bf16* x, const float* bias, const Bf16* d_y, Bf16* d_x, float* d_bias,
                        void* workspace, int64_t rows, int64_t width, Stream stream);
// The gradient of a bias that is added without an activation: d_bias [width] += Σ over the rows of d_y.
void bias_gradient(const Bf16* d_y, float* d_bias, void* workspace, int64_t rows, int64_t width,
                   Stream stream);

}  // namespace longhaul::kernels::cuda
