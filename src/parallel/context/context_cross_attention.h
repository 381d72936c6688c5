// Softmax attention to a memory (model/mixers/cross_attention.h) over context ranks: the queries of the row
// are cut over them. Where the memory is cut too, keys and values of all ranks are gathered, and in the
// backward pass their gradients are summed where they live; where each rank has the whole memory, nothing is
// sent, and its gradient on a rank is the part of that rank's queries. Collective call.
#pragma once

#include "comm/communicator.h"
#include "kernels/attention/op.h"
#include "layout/sequence_view.h"

namespace longhaul::parallel {

// Returns o for this rank's queries q_thd [T,H,D]; k_shd [S,Hk,D] and v_shd [S,Hk,D] are those of this rank's
// share of the memory.
Tensor context_cross_attention(comm::Communicator& group, const Tensor& q_thd, const Tensor& k_shd,
                               const Tensor& v_shd, const layout::SequenceView& view,
                               const layout::SequenceView& memory, const kernels::AttentionOptions& options);

}  // namespace longhaul::parallel
