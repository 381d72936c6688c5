// GatheredAttention: softmax attention whose keys and values come to every context rank, those of some key heads
// (layout/head_groups.h) at a time: while a group of heads
// is computed the next one is on its way, so a rank holds two groups of the whole row's keys and values and never all of them. Backward they
// are gathered again, and their gradients, of all ranks, summed in fp32 (fp64) where they live. One pass of the kernel a run of own queries,
// so nothing is merged. Sources: docs/sources/long-context-parallelism.md A6 (Llama 3's context parallelism, arXiv 2407.21783 §3.3.2); bytes A8.
#pragma once

#include "comm/communicator.h"
#include "kernels/attention/op.h"
#include "layout/sequence_view.h"

namespace longhaul::parallel {

// Arguments as those of context_attention(), of this rank's tokens. A collective call of the group.
Tensor gathered_attention(comm::Communicator& group, const Tensor& q_thd, const Tensor& k_thd, const Tensor& v_thd,
                          const layout::SequenceView& view, const kernels::AttentionOptions& options);

}  // namespace longhaul::parallel
