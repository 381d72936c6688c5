// Our own CPU form of linear_recurrence: bf16 or fp32 inputs, fp32 state, every kind of decay. Chunked
// products (kernels/block) inside segments (plan.h), with documents and heads in parallel; short documents
// are computed token by token. The bits are the same for any number of threads and any execution. The
// backward pass keeps the inputs and one state per segment, and recomputes the rest
// (docs/sources/linear-attention.md §2).
#pragma once

#include "kernels/linear_recurrence/problem.h"

namespace longhaul::kernels {

// FLOPs of one thread in blocks of this operator, by instruction set; only their order of magnitude
// matters. The choices of block and execution depend on it (plan.h), and so does the memory that they need
// (plan/memory/memory.h).
double recurrence_products_per_second();

Refusal refuse_cpu(const RecurrenceProblem& problem);  // empty: takes it

// `boundaries` receives the states between segments, which backward wants; null: not kept.
LinearRecurrenceResult recurrence_forward_cpu(const RecurrenceProblem& problem, Tensor* boundaries);

// In place of the initial state, that of each document's row; they are changed in their places. Undefined,
// and nothing done, where the execution would read a state after its successor is written: then it takes a
// copy.
Tensor recurrence_continue_cpu(const RecurrenceProblem& problem, const RecurrenceStates& states);
// state, and decay, of each document from zero: of k and v, or, given d_o, of q and d_o backwards (raw.h).
// Contiguous, fp32.
void recurrence_fold_cpu(const RecurrenceProblem& problem, const Tensor& d_o_thd, const Tensor& state_nhkv,
                         const Tensor& decay_nhk);

// Writes into the tensors of `out`, which may be slices of larger ones (channels contiguous): q, k (unless
// keys are tied), v, initial_state (contiguous), and where they are defined log_decay (contiguous; fp32, or
// for a gate as its logits) and lower_bound (contiguous).
void recurrence_backward_cpu(const RecurrenceProblem& problem, const Tensor& d_o_thd,
                             const Tensor& d_final_nhkv, const Tensor& boundaries, RecurrenceGradients& out);

}  // namespace longhaul::kernels
