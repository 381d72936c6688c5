// swiglu on a GPU: x [rows, 2 width] holds gate and up side by side; y = silu(gate) ⊙ up, [rows, width]. bf16, fp32 inside.
#pragma once

#include "kernels/cuda/device.h"

namespace longhaul::kernels::cuda {

void swiglu_forward(const Bf16* x, Bf16* y, int64_t rows, int64_t width, Stream stream);
void swiglu_backward(const Bf16* x, const Bf16* d_y, Bf16* d_x, int64_t rows, int64_t width, Stream stream);

}  // namespace longhaul::kernels::cuda
