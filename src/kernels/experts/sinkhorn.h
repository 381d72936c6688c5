// Sinkhorn's iteration: turns a router's logits into scores by which every expert gets nearly the same
// number of tokens (docs/sources/moe-parallel-folding.md §4.2; the balanced assignment of BASE layers,
// arXiv 2103.16716, and S-BASE, 2202.01169). With T tokens, E experts and c = exp(logits), rows and columns
// are scaled in turn,
//
//   d0_t = 1 / (T · (Σ_e d1_e c_te + 1e-8))       d1_e = 1 / (E · (Σ_t d0_t c_te + 1e-8))       from d1 = 1
//
// until the mean over experts of |d1 − its last value| is below 1e-4, but at most 100 times; the result is
// d0_t c_te d1_e. Its columns sum to 1/E, its rows to nearly 1/T. c is computed relative to each row's
// largest logit, which d0 compensates, so no logit is too large.
//
// The result has no gradient: it serves only the choice. In fp64 on the CPU, in an order that depends on T
// alone; T = 0 is allowed.
#pragma once

#include "tensor/tensor.h"

namespace longhaul::kernels {

// logits [tokens, experts] of any floating type and device → fp64, on the same device. Meta tensors give meta
// tensors.
Tensor sinkhorn(const Tensor& logits_te);

}  // namespace longhaul::kernels
