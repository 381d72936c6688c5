// The delta rule over context ranks. The effect of a piece of the row on the state that enters it is affine,
// S_out = P S_in + X and o = o⁰ + Q̃ S_in, with P [Dk, Dk] for each head. So a piece runs once, from the
// state [0 | 1] with values [v | 0], and one call of the operator gives [X | P] and [o⁰ | Q̃]. All ranks
// gather (X | P), compute what enters their own pieces, and add Q̃ S_in. This costs twice the work of a piece
// and sends Dk (Dk + Dv) numbers for each head to every rank, whatever the length of the row; every method
// but ulysses does so. With ulysses heads are dealt out instead of tokens (head_exchange.h): the work of one
// process, divided by the ranks, and the same bits; what is sent grows with the row. Inside autograd. A
// collective call of the group.
#pragma once

#include "comm/communicator.h"
#include "kernels/delta_rule/op.h"
#include "layout/sequence_view.h"

namespace longhaul::parallel {

// Returns o for this rank's tokens. `in`: the inputs of this rank's tokens, without initial states and
// offsets. For ulysses the ranks must divide the key heads.
Tensor context_delta_rule(recipe::LinearContextMethod method, comm::Communicator& group,
                          const kernels::DeltaRuleInputs& in, const layout::SequenceView& view);

}  // namespace longhaul::parallel
