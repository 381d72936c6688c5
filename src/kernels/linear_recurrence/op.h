// linear_recurrence: the one recurrence behind lightning attention, TNL, RetNet, HGRN2, GLA, …
// (docs/sources/linear-attention.md §1):
//
//   S_t = λ_t ⊙ S_{t-1} + k_tᵀ v_t,     o_t = scale · q_t S_t
//
// per head, with λ = exp(log_decay). log_decay is absent, or given for each head, for each token and head,
// or for each token, head and key channel. S restarts at each document. The state is fp32 (fp64 for fp64
// inputs), whatever the dtype of the inputs. Differentiable in q, k, v, log_decay and initial_state. Heads
// of q share a head of k and v in groups: H is a multiple of Hk. Source: docs/sources/minimax-01.md §2.3,
// arXiv 2401.04658.
//
// Implementations, in the order in which they are tried:
//   cuda        our own, bf16 on a GPU, every kind of decay
//   cpu         our own, bf16 and fp32, every kind of decay
//   meta        shapes only
//   aten        LibTorch's operators, every case, any device
//   reference   plain loops, for comparison
#pragma once

#include <limits>
#include <span>

#include "kernels/dispatch.h"
#include "kernels/linear_recurrence/cpu/plan.h"
#include "tensor/tensor.h"

namespace longhaul::kernels {

// A decay that is a gate. What is given in place of log_decay are then the logits x of a projection, bf16 or
// fp32 (fp64 for fp64 inputs), [T,H,Dk], or [T,H] for log_sigmoid. The operator forms the decay, and the keys
// where they are tied to it, in fp32 where it reads them, and stores neither. Gradients go to x and γ, the
// latter a sum over tokens in a fixed order. docs/sources/linear-attention.md §5.2, §5.3:
//
//   log_sigmoid     log λ = logσ(x) / τ        k = 1 − λ                GLA (τ = 16), MetaLA, gated RetNet
//   lower_bounded   λ = γ + (1 − γ) σ(x)       k = (1 − γ) σ(−x)        HGRN2
//
// The least γ is a bound of the gate, so the cpu form takes its fast path automatically.
struct RecurrenceGate {
  enum class Kind { kNone, kLogSigmoid, kLowerBounded };
  Kind kind = Kind::kNone;  // none: log_decay is given
  double divisor = 1;       // τ, above 0
  Tensor lower_bound_hk;    // γ [H,Dk] in [0, 1), fp32 (fp64 for fp64 inputs)
};

struct LinearRecurrenceOptions {
  double scale = 1.0;
  bool reverse = false;  // runs each document from its last token to its first
  // k is not given (an undefined tensor): k_t = 1 − λ_t, for a decay per channel; the gradient of k goes to
  // log_decay, or to the gate.
  bool tied_keys = false;
  RecurrenceGate gate;
  // A lower bound of log_decay that the caller knows (HGRN2: the layer's lower bound). With −5 or more, the
  // cpu form takes a faster path for a decay per channel; a value below the bound is an error.
  double log_decay_bound = -std::numeric_limits<double>::infinity();
  // For the cpu form: a power of two from 16 to 256; 0: chosen automatically.
  int64_t block = 0;
  // For the cpu form: tokens of a segment (cpu/plan.h), rounded up to a block; 0: eight blocks.
  int64_t segment = 0;
  // For the cpu form; the result does not depend on it.
  RecurrenceExecution execution = RecurrenceExecution::kAuto;
};

struct LinearRecurrenceResult {
  Tensor o_thd;             // [T, H, Dv], dtype of v
  Tensor final_state_nhkv;  // [N, H, Dk, Dv]
};

// q_thk [T,H,Dk], k_thk [T,Hk,Dk], v_thv [T,Hk,Dv]; log_decay undefined, [H], [T,H] or [T,H,Dk], or a gate's
// logits; initial_state_nhkv [N,H,Dk,Dv] or undefined (zeros); offsets: int64 [N+1] on the CPU, document
// boundaries, or undefined (one document).
//
// A log_decay above 1e-3 (0 but for rounding) is an error on the CPU. On a GPU, where the host does not wait
// to look, it makes what follows it in its document and head NaN, as a NaN does.
LinearRecurrenceResult linear_recurrence(const Tensor& q_thk, const Tensor& k_thk, const Tensor& v_thv,
                                         const Tensor& log_decay, const Tensor& initial_state_nhkv,
                                         const Tensor& offsets, const LinearRecurrenceOptions& options = {});

// The states of many sequences. A call continues some of them: its document n continues sequence rows[n].
struct RecurrenceStates {
  Tensor state_shkv;              // [S,H,Dk,Dv] fp32 (fp64 for fp64 inputs), contiguous
  std::span<const int64_t> rows;  // [N], all different
};

// A document that is read in several calls has the same bits as in one, in the cpu form, where every call but
// the last reads a multiple of so many tokens: segments (cpu/plan.h) are as long.
inline constexpr int64_t kContinuedTokens = 64;

// Decoding: linear_recurrence from these states, which the final states replace (in the cpu form without a
// copy). options.segment is kContinuedTokens. No gradient.
Tensor linear_recurrence_continued(const Tensor& q_thk, const Tensor& k_thk, const Tensor& v_thv,
                                   const Tensor& log_decay, const RecurrenceStates& states,
                                   const Tensor& offsets, const LinearRecurrenceOptions& options = {});

// The definition: loops in the dtype of the state that follow the equation. Same contract, and also
// differentiable.
LinearRecurrenceResult linear_recurrence_reference(const Tensor& q_thk, const Tensor& k_thk,
                                                   const Tensor& v_thv, const Tensor& log_decay,
                                                   const Tensor& initial_state_nhkv, const Tensor& offsets,
                                                   const LinearRecurrenceOptions& options = {});

}  // namespace longhaul::kernels
