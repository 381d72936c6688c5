// The delta rule over context ranks. What a piece of the row makes of the state that enters it is affine, S_out = P S_in + X and o = o⁰ + Q̃ S_in,
// with P [Dk, Dk] for each head: so a piece runs once, from [0 | 1] with values [v | 0], and gives [X | P] and [o⁰ | Q̃] in one call of the operator.
// All (X | P) are gathered, each rank works out what enters its own pieces and adds Q̃ S_in. That is twice the work of a piece and Dk (Dk + Dv)
// numbers a head to every rank, however long the row is. Inside autograd. A collective call of the group.
#pragma once

#include "comm/communicator.h"
#include "kernels/delta_rule/op.h"
#include "layout/sequence_view.h"

namespace longhaul::parallel {

// → o of this rank's tokens. `in`: those of this rank, without initial states and offsets.
Tensor context_delta_rule(comm::Communicator& group, const kernels::DeltaRuleInputs& in, const layout::SequenceView& view);

}  // namespace longhaul::parallel
