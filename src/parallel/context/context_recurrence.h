// The linear recurrence over context ranks. What crosses from piece to piece is the state of one document,
// [H, Dk, Dv] in fp32 (fp64), whatever the length of the row. Each piece is first folded to its effect (S, Λ)
// with S_out = Λ ⊙ S_in + S, before any state has arrived, so a state waits at a rank only for that line;
// then the piece runs from its own S_in. The backward pass mirrors this, dS_in = Λ ⊙ dS_out + D, from the
// last piece to the first; S_in is kept, so nothing is sent twice.
//
//   ring         S_out goes to the rank of the next piece. LASP (arXiv 2404.02882)
//   all-scan     The same in slices of Dk: a rank passes one slice on while the next arrives. ZeCO (arXiv
//                2507.01004)
//   all-gather   All S (and Λ where it depends on tokens) go to all ranks, which compose them. LASP-2 (arXiv
//                2502.07563). Heads are handled in two halves where their number is even: the second half is
//                folded while the states of the first are sent, and the first half runs while those of the
//                second are sent. Pieces that no state enters run before any state has arrived. A rank whose
//                pieces no other piece waits for has nothing to fold and waits: with a contiguous split the
//                last rank (in the backward pass the first), with zig-zag none. LASP-2 instead computes the
//                part without the state meanwhile and adds the state's part to the outputs, which takes one
//                more pass over the tokens; this form needs none, and gives the same bits.
//
//   ulysses      Heads are dealt out instead of tokens (head_exchange.h): every rank runs its share of the
//                heads over the whole row, as one process would and with the same bits, and no state goes
//                anywhere. What is sent grows with the row: (P − 1) / P of the queries, keys, values, decays
//                of tokens, and results of a rank. The ranks must divide the heads.
//
// A piece in which a document begins lets no state through; a piece that begins with its first document
// receives none, and there the ring sends nothing. Bytes: docs/sources/long-context-parallelism.md A8.
// Zig-zag doubles each of them. A collective call of the group.
#pragma once

#include "comm/communicator.h"
#include "kernels/linear_recurrence/op.h"
#include "layout/sequence_view.h"

namespace longhaul::parallel {

inline constexpr int64_t kGatheredHalves = 2;

// Returns o for this rank's tokens. The arguments are those of linear_recurrence, for this rank's tokens.
Tensor context_recurrence(recipe::LinearContextMethod method, comm::Communicator& group, const Tensor& q_thd,
                          const Tensor& k_thd, const Tensor& v_thd, const Tensor& log_decay,
                          const layout::SequenceView& view, const kernels::LinearRecurrenceOptions& options);

}  // namespace longhaul::parallel
