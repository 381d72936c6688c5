// The wrappers of kernels/cuda/wgmma.h on their own, so that a fault of theirs is told from one of a kernel; and the rate they reach, which is
// what shares of kernels by wgmma are of. sm_90a only.
#pragma once

#include <string>

#include "kernels/cuda/device.h"

namespace longhaul::gpu_check {

using kernels::cuda::Bf16;
using kernels::cuda::Stream;

constexpr int kProductRows = 64, kProductDepth = 64;

std::string wgmma_refusal();  // why there is none on this device; empty: there is
// out[64, columns] = a[64, 64] · b, columns 64 or 128. by_rows: b[columns, 64]ᵀ, both operands from shared memory; else b[64, columns],
// a from registers.
void wgmma_product(bool by_rows, int columns, const Bf16* a, const Bf16* b, float* out, Stream stream);

double wgmma_rate_flops(int multiprocessors);
void wgmma_rate(int multiprocessors, float* out, Stream stream);  // writes a number a thread

}  // namespace longhaul::gpu_check
