// delta_rule: the linear recurrence that corrects what it has stored under a key before it writes (DeltaNet, arXiv 2102.11174, 2406.06484):
//
//   S' = λ_t ⊙ S_{t-1},    u_t = β_t (v_t − k_t S'),    S_t = S' + k_tᵀ u_t,    o_t = scale · q_t S_t
//
// per head, S [Dk, Dv], λ = exp(log_decay) none / per token and head (Gated DeltaNet, 2412.06464) / per token, head and key channel (Kimi
// Delta Attention, 2510.26692); S restarts at each document. With keys of length 1 and 0 ≤ β ≤ 2 the state cannot grow by itself; neither is
// checked. The state is fp32 (fp64 for fp64 inputs) whatever the inputs are. Differentiable in q, k, v, beta, log_decay and initial_state.
// Heads of v, with their β, decay and state, share a head of q and k in groups: H is a multiple of Hk.
//
// Implementations, in the order they are asked:
//   cpu         our own, bf16 and fp32 (cpu.h)
//   meta        shapes only
//   aten        chunks in LibTorch's operators (chunked.h), forward and backward; any device
//   reference   plain loops, to compare with
#pragma once

#include "kernels/dispatch.h"
#include "kernels/linear_recurrence/op.h"
#include "tensor/tensor.h"

namespace longhaul::kernels {

struct DeltaRuleInputs {
  Tensor q_tgk, k_tgk;        // [T, Hk, Dk]
  Tensor v_thv;               // [T, H, Dv], dtype of q and k
  Tensor beta_th;             // [T, H], floating point
  Tensor log_decay;           // undefined, [T, H] or [T, H, Dk], floating point, ≤ 0
  Tensor initial_state_nhkv;  // [N, H, Dk, Dv], or undefined: zeros
  Tensor offsets;             // int64 [N+1] on the CPU, document boundaries, or undefined: one document
  double scale = 1;
};

// o [T, H, Dv] in the dtype of v, final states [N, H, Dk, Dv]. A log_decay above 1e-3 (0 but for rounding) is an error on the CPU; elsewhere
// nobody looks.
LinearRecurrenceResult delta_rule(const DeltaRuleInputs& in);

// Decoding: from the states of some sequences on (in.initial_state_nhkv is undefined), whose places the final states take → o. A sequence's
// result does not depend, to the bit, on those beside it. On the CPU short documents go token by token. No gradient.
Tensor delta_rule_continued(const DeltaRuleInputs& in, const RecurrenceStates& states);

// The definition: loops in the dtype of the state, under the equation. Same contract; differentiable likewise.
LinearRecurrenceResult delta_rule_reference(const DeltaRuleInputs& in);

}  // namespace longhaul::kernels
