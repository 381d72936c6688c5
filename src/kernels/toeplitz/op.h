// toeplitz: convolves each channel of a sequence, causally, with a kernel of its own that is a sum of e
// exponentials, which all channels share:
//
//   y_t,c = Σ_{s ≤ t} κ_c(t − s) x_s,c        κ_c(τ) = Σ_j B_cj λ_j^τ        (a Toeplitz matrix for each
//                                             channel)
//
// It is computed as a recurrence of e sums per channel, so that a token costs 4 · e · d FLOPs whatever the
// length, and decoding continues from a state:
//
//   S_t,j = λ_j S_{t−1,j} + x_t        y_t,c = Σ_j B_cj S_t,jc
//
// This is the Toeplitz position encoding (TPE) of cosFormer2 (arXiv 2406.16690) and LightNet (arXiv
// 2405.21022); docs/sources/linear-attention.md §8.3. S restarts at each document. Sums, B, λ and states
// are fp32 (fp64 for fp64 inputs), y has the dtype of x. Differentiable in all inputs; S is not kept for
// the backward pass but recomputed, together with its derivative by log λ. Results do not depend on the
// number of threads, nor, to the bit, on how a document is divided into calls that continue each other.
// Implementations: cpu (vector loops), meta, aten (chunks of products: any device).
#pragma once

#include <span>

#include "tensor/tensor.h"

namespace longhaul::kernels {

struct Toeplitz {
  Tensor y_td, final_state_ned;
};
// x_td [T, d]; coefficient_de [d, e] (B); log_decay_e [e] (log λ ≤ 0); offsets: int64 [N+1] on the CPU, or
// undefined (one document); initial_state_ned [N, e, d] or undefined (zeros). Without `with_state` the final
// ones are not made.
Toeplitz toeplitz(const Tensor& x_td, const Tensor& coefficient_de, const Tensor& log_decay_e,
                  const Tensor& offsets, const Tensor& initial_state_ned, bool with_state = true);

// The states of many sequences. A call continues some of them: its document n continues sequence rows[n].
struct ToeplitzStates {
  Tensor state_sed;
  std::span<const int64_t> rows;  // [N], all different
};
// Decoding: continues from these states, which the final states replace. No gradient.
Tensor toeplitz_continued(const Tensor& x_td, const Tensor& coefficient_de, const Tensor& log_decay_e,
                          const ToeplitzStates& states, const Tensor& offsets);

// In chunks, with LibTorch's operators under autograd: a short convolution within a chunk, products with S
// across chunks.
Toeplitz toeplitz_aten(const Tensor& x_td, const Tensor& coefficient_de, const Tensor& log_decay_e,
                       const Tensor& offsets, const Tensor& initial_state_ned);

}  // namespace longhaul::kernels
