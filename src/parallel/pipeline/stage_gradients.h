// Gradients of tensors that several ranks of a pipeline hold (both ends of a tied embedding, all layers of
// DualPipe): each rank adds up the gradients of all of them, in the order of ranks, so that the sums have the
// same bits everywhere. Runs of many tensors travel together and those of large ones in parts, so that
// messages have a useful size and only a few buffers lie beside the gradients; the next message is sent while
// one is added up.
#pragma once

#include "comm/communicator.h"
#include "model/parameter.h"

namespace longhaul::parallel {

inline constexpr int64_t kStageMessageBytes = int64_t{16} << 20;

// Sums own_grad in place for every parameter that other ranks of the pipeline hold too. These ranks hold
// shares of one size and make this call together.
void sum_gradients_of_stages(comm::Communicator& pipeline, const model::ParameterSet& parameters,
                             int64_t message_bytes = kStageMessageBytes);

}  // namespace longhaul::parallel
