// Sums over rows, for the gradient of a bias: to_c += Σ_i x_ic, in fp32, rows in order before they are added.
// x is bf16 (as bits) or fp32 with row stride ld. One thread.
#pragma once

#include <cstdint>

namespace longhaul::kernels {

void add_column_sums(const uint16_t* x, int64_t ld, int64_t rows, int64_t columns, float* to);
void add_column_sums(const float* x, int64_t ld, int64_t rows, int64_t columns, float* to);

}  // namespace longhaul::kernels
