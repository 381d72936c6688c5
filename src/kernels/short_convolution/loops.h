// The row loops of short_convolution: raw pointers and sizes, one thread, one token at a time. A null row
// counts as a row of zeros.
#pragma once

#include <cstdint>

#include "kernels/vector/storage.h"

namespace longhaul::kernels {

struct ShortConvolution {
  // of x, y and their gradients; weight, bias, dz and sums are fp32 (fp64 for fp64)
  Storage storage = Storage::kFp32;
  int64_t channels = 0, width = 0;
  const void* weight_wc = nullptr;  // [width, channels]
  const void* bias_c = nullptr;     // null: none
  bool silu = false;
};

// y of the token whose taps are the rows x[0 … width): z = bias + Σ_j weight_j ⊙ x[j].
void convolve_row(const ShortConvolution& problem, const void* const* x, void* y);
// dz of that token; its share of the weight's and the bias' gradients is added (null: not wanted).
void convolution_slope_row(const ShortConvolution& problem, const void* const* x, const void* dy, void* dz,
                           void* d_weight_wc, void* d_bias_c);
// dx = beside + Σ_j weight_j ⊙ dz[j], of the tokens for which x was tap j; `beside` as dx is stored, or null.
void convolution_input_row(const ShortConvolution& problem, const void* const* dz, const void* beside,
                           void* dx);

}  // namespace longhaul::kernels
