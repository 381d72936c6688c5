// The raw level of linear_recurrence: dispatched like op.h's, without autograd, with every state an
// argument. A row of tokens that is divided into several ranges (on several ranks, or one after the other)
// is computed as follows; each document of a range has a state of its own, [N,H,Dk,Dv] in fp32 (fp64):
//
//   fold           S, Λ of a range from zero, without outputs          S_out = Λ ⊙ S_in + S,      Λ = Π λ
//   run            o and S_out of a range, given S_in
//   fold_gradient  D of a range from zero                              dS_in = Λ ⊙ dS_out + D
//   run_backward   dq, dk, dv, dλ and dS_in, given S_in and dS_out
//
// So LASP sends S_out (dS_in) from range to range; LASP-2 folds, gathers all (S, Λ), or D, and runs. Only
// the document of a range's last (first) token passes a state on: fold that part of the range alone.
// Source: docs/sources/long-context-parallelism.md A1 to A5.
#pragma once

#include "kernels/linear_recurrence/problem.h"

namespace longhaul::kernels {

struct RecurrenceInputs {  // as linear_recurrence takes them
  Tensor q_thk, k_thk, v_thv, log_decay, initial_state_nhkv, offsets;
  LinearRecurrenceOptions options;
};

struct RecurrenceFold {
  Tensor state_nhkv;  // [N, H, Dk, Dv]
  Tensor decay_nhk;   // [N, H, Dk]: Λ itself, not its logarithm; 1 for a document without tokens
};

struct RecurrenceRun {
  LinearRecurrenceResult result;
  Tensor boundaries;  // what the same implementation's backward pass reads; may be undefined
};

// Of `in` everything but q and initial_state; heads: H, which k and v may have fewer of.
RecurrenceFold fold_recurrence(const RecurrenceInputs& in, int64_t heads);
// Of `in` q, log_decay, offsets and options.
RecurrenceFold fold_recurrence_gradient(const RecurrenceInputs& in, const Tensor& d_o_thd);

RecurrenceRun run_recurrence(const RecurrenceInputs& in);
// boundaries: of run_recurrence on the same inputs, or undefined (the states are made again). d_final may be
// undefined: zeros. Gradients come in the dtype of their inputs; that of log_decay (or a gate's logits and γ)
// where `want_decay`.
RecurrenceGradients run_recurrence_backward(const RecurrenceInputs& in, const Tensor& boundaries,
                                            const Tensor& d_o_thd, const Tensor& d_final_nhkv,
                                            bool want_decay);

}  // namespace longhaul::kernels
