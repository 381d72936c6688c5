// Computes the gates of the delta rules from logits, in fp32 (fp64 for fp64 logits): the write strength β,
// and the decay with its step size as in Mamba-2 (arXiv 2405.21060; Gated DeltaNet 2412.06464, per head;
// Kimi Delta Attention 2510.26692, per head and key channel):
//
//   β = most · σ(w)        log λ = −e^{rate_h} · softplus(f + bias)
//
// It also normalises keys and queries: x · factor / sqrt(Σ x² + eps) over the channels of a head. In
// training under autograd with LibTorch's operators; in decoding on the CPU, without gradients, in loops in
// which an element does not depend on its position among others.
#pragma once

#include "tensor/tensor.h"

namespace longhaul::kernels {

// logits_th [T, H], any strides.
Tensor write_shares(const Tensor& logits_th, double most, bool decoding = false);

// logits [T, H] or [T, H, Dk], any strides; rate_h [H] and bias [H] or [H, Dk] in fp32 (fp64).
Tensor step_decays(const Tensor& logits, const Tensor& rate_h, const Tensor& bias, bool decoding = false);

// x_thd [T, H, D] → [T, H, D] in its dtype.
Tensor of_length(const Tensor& x_thd, double factor, double eps);

}  // namespace longhaul::kernels
