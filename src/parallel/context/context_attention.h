// Softmax attention over context-parallel ranks, with grouped queries and windows. There are two ways to
// share the work, and their product (context `ranks` = inner × rounds):
//
//   ring       Keys and values go from rank to rank. Each rank computes the pairs (its queries, visiting
//              keys) that see each other and merges the results in fp32. Keys go no further than to the last
//              rank that sees one of them. In the backward pass their gradients travel with them, and that
//              last rank sends the gradients to the owner. Rows may be contiguous, zig-zag or striped, with
//              documents anywhere; kernels::Visibility says what a pair sees. The other methods take no
//              striped row.
//   ulysses    A rank exchanges the heads of its own tokens for all tokens of some heads, computes, and
//              exchanges back.
//   two-level  Ulysses among `inner` neighbours, as many as the key heads allow, and a ring of these groups.
//   all-gather Keys and values of the whole row come to every rank, for some heads at a time
//     (gathered_attention.h).
//
// The exchange of the next block starts before the computation of the current one. Source:
// docs/sources/long-context-parallelism.md A6; bytes A8. Collective calls.
#pragma once

#include "comm/communicator.h"
#include "kernels/attention/op.h"
#include "layout/sequence_view.h"

namespace longhaul::parallel {

// How many of `ranks` neighbours share heads, in whole groups of grouped-query attention; 1: none. Throws
// kUsage where the method cannot be used.
int64_t head_ranks(recipe::ContextMethod method, int64_t ranks, int64_t key_heads);

// Returns o for this rank's tokens; q [T,H,D], k [T,Hk,D] and v [T,Hk,Dv] belong to them. head_ranks() must
// have accepted the sizes.
Tensor context_attention(recipe::ContextMethod method, comm::Communicator& group, const Tensor& q_thd,
                         const Tensor& k_thd, const Tensor& v_thd, const layout::SequenceView& view,
                         const kernels::AttentionOptions& options);

}  // namespace longhaul::parallel
