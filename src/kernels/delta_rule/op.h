// delta_rule: the linear recurrence that corrects what it has stored under a key before it writes
// (DeltaNet, arXiv 2102.11174, 2406.06484):
//
//   S' = λ_t ⊙ S_{t-1},    u_t = β_t (v_t − k_t S'),    S_t = S' + k_tᵀ u_t,    o_t = scale · q_t S_t
//
// per head, with S [Dk, Dv] and λ = exp(log_decay). log_decay is absent, or given for each token and head
// (Gated DeltaNet, 2412.06464), or for each token, head and key channel (Kimi Delta Attention, 2510.26692).
// S restarts at each document. With keys of length 1 and 0 ≤ β ≤ 2 the state cannot grow by itself; neither
// condition is checked. The state is fp32 (fp64 for fp64 inputs), whatever the dtype of the inputs.
// Differentiable in q, k, v, beta, log_decay and initial_state. Heads of v, with their β, decay and state,
// share a head of q and k in groups: H is a multiple of Hk.
//
// Implementations, in the order in which they are tried:
//   cuda        our kernels on a GPU, bf16, without a decay or with one per token and head (cuda.h)
//   cpu         our own, bf16 and fp32 (cpu.h)
//   meta        shapes only
//   aten        chunks in LibTorch's operators (chunked.h), forward and backward; any device
//   reference   plain loops, for comparison
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

// Returns o [T, H, Dv] in the dtype of v, and final states [N, H, Dk, Dv]. A log_decay above 1e-3 (it
// should be at most 0, except for rounding) is an error on the CPU; on other devices it is not checked.
LinearRecurrenceResult delta_rule(const DeltaRuleInputs& in);

// Decoding: continues from the states of some sequences (in.initial_state_nhkv is undefined), which the
// final states replace. Returns o. The result of a sequence does not depend, to the bit, on the other
// sequences. On the CPU short documents are processed token by token. No gradient.
Tensor delta_rule_continued(const DeltaRuleInputs& in, const RecurrenceStates& states);

// The definition: loops in the dtype of the state that follow the equation. Same contract, and also
// differentiable.
LinearRecurrenceResult delta_rule_reference(const DeltaRuleInputs& in);

}  // namespace longhaul::kernels
