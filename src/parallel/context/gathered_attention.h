// GatheredAttention: softmax attention for which the keys and values of some key heads at a time
// (layout/head_groups.h) are gathered by every context rank. While one group of heads is computed the next is
// gathered, so a rank holds the keys and values of two groups of the whole row and never all of them. In the
// backward pass they are gathered again, and the gradients of all ranks are summed in fp32 (fp64) where the
// keys live. There is one kernel call for each run of own queries, so no results are merged. Sources:
// docs/sources/long-context-parallelism.md A6 (Llama 3's context parallelism, arXiv 2407.21783 §3.3.2); bytes
// A8.
#pragma once

#include "comm/communicator.h"
#include "kernels/attention/op.h"
#include "layout/sequence_view.h"

namespace longhaul::parallel {

// The arguments are those of context_attention(), for this rank's tokens. A collective call of the group.
Tensor gathered_attention(comm::Communicator& group, const Tensor& q_thd, const Tensor& k_thd,
                          const Tensor& v_thd, const layout::SequenceView& view,
                          const kernels::AttentionOptions& options);

}  // namespace longhaul::parallel
