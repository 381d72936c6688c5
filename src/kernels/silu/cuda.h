// silu on a GPU (lightning attention applies it to q, k and v): y = x · sigmoid(x) over n values; in place is allowed. bf16.
#pragma once

#include "kernels/cuda/device.h"

namespace longhaul::kernels::cuda {

void silu_forward(const Bf16* x, Bf16* y, int64_t n, Stream stream);
void silu_backward(const Bf16* x, const Bf16* d_y, Bf16* d_x, int64_t n, Stream stream);

}  // namespace longhaul::kernels::cuda
