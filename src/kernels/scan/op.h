// Scans along the tokens of each document that need no products; each channel is independent.
//
//   decayed_sum           h_t = a_t h_{t−1} + u_t,                     0 ≤ a ≤ 1
//                         HGRN (arXiv 2311.04823)
//   cumulative_softmax    z_t = log Σ_{s ≤ t} e^{x_s},     k_t = e^{x_t − z_t},    g_t = z_{t−1} − z_t
//                         LightNet (arXiv 2405.21022)
//
// k and g are keys and log decays for linear_recurrence, with k = 1 − e^g. At a document's first token,
// unless it continues from a state, k = 1 and g = 0, because there is nothing yet that could decay. All
// exponents are ≤ 0. Sums, g, a, z and states are fp32 (fp64 for fp64 inputs); h and k have the dtype of u
// and x. Results do not depend on the number of threads. Implementations: cpu (vector loops), meta, aten
// (LibTorch's operators, token by token: any device, slow).
#pragma once

#include <span>

#include "tensor/tensor.h"

namespace longhaul::kernels {

struct DecayedSum {
  Tensor h_tc, final_state_nc;
};
// a_tc [T, C] fp32 (fp64); u_tc [T, C]; offsets: int64 [N+1] on the CPU, or undefined (one document);
// initial_state_nc [N, C] or undefined (zeros).
DecayedSum decayed_sum(const Tensor& a_tc, const Tensor& u_tc, const Tensor& offsets,
                       const Tensor& initial_state_nc);

struct CumulativeSoftmax {
  Tensor k_tc, log_decay_tc, final_state_nc;  // of the state: z
};
// x_tc [T, C]; initial_state_nc [N, C]: z of the preceding tokens, −∞ if there were none, or undefined
// (there were none).
CumulativeSoftmax cumulative_softmax(const Tensor& x_tc, const Tensor& offsets,
                                     const Tensor& initial_state_nc);

// The states of many sequences. A call continues some of them: its document n continues sequence rows[n].
struct ScanStates {
  Tensor state_sc;
  std::span<const int64_t> rows;  // [N], all different
  // For a cumulative softmax: 1 if the sequence has a state; 0 if it has no preceding tokens.
  Tensor begun_sc{};
};
// Decoding: continues from these states, which the final states replace. No gradient.
Tensor decayed_sum_continued(const Tensor& a_tc, const Tensor& u_tc, const ScanStates& states,
                             const Tensor& offsets);
CumulativeSoftmax cumulative_softmax_continued(const Tensor& x_tc, const ScanStates& states,
                                               const Tensor& offsets);

// Token by token under autograd: the references, which also run where the loops do not.
DecayedSum decayed_sum_reference(const Tensor& a_tc, const Tensor& u_tc, const Tensor& offsets,
                                 const Tensor& initial_state_nc);
CumulativeSoftmax cumulative_softmax_reference(const Tensor& x_tc, const Tensor& offsets,
                                               const Tensor& initial_state_nc);

}  // namespace longhaul::kernels
