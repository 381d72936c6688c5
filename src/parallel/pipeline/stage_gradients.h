// Gradients of tensors that several ranks of a pipeline hold (both ends of a tied embedding, all layers of DualPipe): each adds up what all of them have, in
// the order of ranks, so that the sums are the same to the bit. Runs of many tensors go together, and of large ones apart, so that a message is worth its
// while and what lies beside the gradients is a few of those; the next one is on its way while one is added up.
#pragma once

#include "comm/communicator.h"
#include "model/parameter.h"

namespace longhaul::parallel {

inline constexpr int64_t kStageMessageBytes = int64_t{16} << 20;

// In place: own_grad of every parameter that other ranks of the pipeline hold too. They hold shares of one size, and call this together.
void sum_gradients_of_stages(comm::Communicator& pipeline, const model::ParameterSet& parameters,
                             int64_t message_bytes = kStageMessageBytes);

}  // namespace longhaul::parallel
