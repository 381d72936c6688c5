// Attention without an order (kernels/bidirectional) of documents that context ranks share: each rank adds up its own tokens of a document, and the
// sums of the ranks are one all-reduce each: the largest logit and the sum of exponentials of every key channel, Kᵀ V; in the backward pass
// Σ k dk and Qᵀ dO. What runs along the tokens is nothing, so any split of them costs all ranks the same. Documents that one rank has whole are not sent.
// Sums are fp32 (fp64 for fp64 inputs), by LibTorch's operators. Collective calls of the group.
#pragma once

#include "comm/communicator.h"
#include "layout/sequence_view.h"
#include "tensor/tensor.h"

namespace longhaul::parallel {

// Of this rank's tokens of the row, [tokens, …]; as kernels::segment_softmax and kernels::bidirectional_attention.
Tensor context_segment_softmax(comm::Communicator& group, const Tensor& x_tc, const layout::SequenceView& view);
Tensor context_bidirectional_attention(comm::Communicator& group, const Tensor& q_thk, const Tensor& k_thk, const Tensor& v_thv,
                                       const layout::SequenceView& view);

}  // namespace longhaul::parallel
