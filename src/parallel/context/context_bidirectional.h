// Bidirectional linear attention (kernels/bidirectional) for documents that context ranks share. Each rank
// sums over its own tokens of a document, and each of these sums takes one all-reduce: the largest logit and
// the sum of exponentials of every key channel, and Kᵀ V; in the backward pass Σ k dk and Qᵀ dO. Nothing runs
// along the tokens, so any split of them costs all ranks the same. Documents that lie on one rank are not
// exchanged. Sums are fp32 (fp64 for fp64 inputs), computed with LibTorch's operators. Collective calls of
// the group.
#pragma once

#include "comm/communicator.h"
#include "layout/sequence_view.h"
#include "tensor/tensor.h"

namespace longhaul::parallel {

// For this rank's tokens of the row, [tokens, …]; otherwise as kernels::segment_softmax and
// kernels::bidirectional_attention.
Tensor context_segment_softmax(comm::Communicator& group, const Tensor& x_tc,
                               const layout::SequenceView& view);
Tensor context_bidirectional_attention(comm::Communicator& group, const Tensor& q_thk, const Tensor& k_thk,
                                       const Tensor& v_thv, const layout::SequenceView& view);

}  // namespace longhaul::parallel
