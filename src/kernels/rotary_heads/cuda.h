// Rotary position encoding on a GPU, of the first 2 · pairs of `width` channels of each head; the rest is
// copied. Channel j turns with channel j + pairs: (a, b) → (a cos − b sin, b cos + a sin). x, y bf16 [tokens,
// heads, width], whose tokens lie x_stride and y_stride elements apart; cos and sin fp32 [tokens, pairs].
// `inverse` turns back: the gradient. In place is allowed.
#pragma once

#include "kernels/cuda/numbers.h"

namespace longhaul::kernels::cuda {

void rotary(const Bf16* x, int64_t x_stride, const float* cos, const float* sin, Bf16* y, int64_t y_stride,
            int64_t tokens, int heads, int width, int pairs, bool inverse, Stream stream);

}  // namespace longhaul::kernels::cuda
