// The counts of spikes of activations (SpikingBrain, arXiv 2509.05276 §3), for each token of x [tokens,
// channels] by itself:
//
//   threshold_t = mean_c |x_tc| / k, kept within [1e-5, 1e4]
//   count_tc    = round(x_tc / threshold_t), to nearest, ties to even; not bounded: outliers have large ones
//
// The mean is summed in fp64 (a bf16 sum over thousands of channels is visibly wrong) and never over tokens,
// so that a token's counts do not depend on its neighbours. bf16 and fp32 on the CPU by vector loops, whose
// bits are the same for every instruction set; on other devices, and in fp64, which proofs compute in, by
// LibTorch's operators.
#pragma once

#include "tensor/tensor.h"

namespace longhaul::kernels {

struct SpikeCounts {
  Tensor count_tc;     // whole numbers in fp32 (fp64 for fp64)
  Tensor threshold_t;  // likewise
};
SpikeCounts spike_counts(const Tensor& x_tc, double k);

// count · threshold, in the type of x: what a product with wide weights reads. No gradient.
Tensor spiked(const Tensor& x_tc, double k);

}  // namespace longhaul::kernels
