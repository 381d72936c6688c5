// bias + GeLU on a GPU, in the tanh form of GPT-2: u = x + b, y = u/2 (1 + tanh(√(2/π) (u + 0.044715 u³))). x bf16 [rows, width],
// b fp32 [width] or null. The gradient of b is added to `d_bias`, in an order that does not vary.
#pragma once

#include "kernels/cuda/device.h"

namespace longhaul::kernels::cuda {

void bias_gelu_forward(const Bf16* x, const float* bias, Bf16* y, int64_t rows, int64_t width, Stream stream);
int64_t bias_gelu_workspace_bytes(int64_t rows, int64_t width);
void bias_gelu_backward(const Bf16* x, const float* bias, const Bf16* d_y, Bf16* d_x, float* d_bias, void* workspace, int64_t rows, int64_t width,
                        Stream stream);

}  // namespace longhaul::kernels::cuda
