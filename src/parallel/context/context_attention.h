// Softmax attention over context ranks, GQA and windows included. Two ways to share it, and their product (context `ranks` = inner × rounds):
//
//   ring       keys and values go from rank to rank; each computes the pairs (its queries, visiting keys) that see each other and joins the
//              results in fp32. They go no further than to the last rank that sees one of them. Backward: with them go their gradients,
//              which that rank sends home. Contiguous, zig-zag, documents anywhere: what a pair sees is kernels::Visibility.
//   ulysses    a rank gives away its tokens' heads and gets all tokens of some heads, computes, and gives back
//   two-level  ulysses among `inner` neighbours, as many as key heads allow; a ring of these groups
//   all-gather keys and values of the whole row on every rank, some heads at a time (gathered_attention.h)
//
// Next block's exchange is started before the computing on this one. Source: docs/sources/long-context-parallelism.md A6; bytes A8. Collective calls.
#pragma once

#include "comm/communicator.h"
#include "kernels/attention/op.h"
#include "layout/sequence_view.h"

namespace longhaul::parallel {

// How many of `ranks` neighbours deal out heads: whole groups of grouped-query attention. 1: none. kUsage where the method cannot.
int64_t head_ranks(recipe::ContextMethod method, int64_t ranks, int64_t key_heads);

// → o of this rank's tokens; q [T,H,D], k [T,Hk,D], v [T,Hk,Dv] are theirs, which head_ranks() has let pass.
Tensor context_attention(recipe::ContextMethod method, comm::Communicator& group, const Tensor& q_thd, const Tensor& k_thd,
                         const Tensor& v_thd, const layout::SequenceView& view, const kernels::AttentionOptions& options);

}  // namespace longhaul::parallel
