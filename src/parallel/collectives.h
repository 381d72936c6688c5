// Collectives inside autograd: each with its conjugate as backward pass. Rows are dimension 0; `rows`: how many each rank has. All ranks
// of a group must record the same sequence of them, and so they meet again in the backward pass. Plain: a call waits for its end.
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.h"
#include "tensor/tensor.h"

namespace longhaul::parallel {

// The rows of all ranks, in their order. Backward: the gradients that all ranks have of them are summed.
Tensor gather_rows(comm::Communicator& group, const Tensor& own, const std::vector<int64_t>& rows, const char* name);

// This rank's rows of the sum. Backward: gathered.
Tensor sum_scatter_rows(comm::Communicator& group, const Tensor& partial, const std::vector<int64_t>& rows, const char* name);

// The sum, which every rank uses for itself. Backward: the gradients are summed too.
Tensor sum_everywhere(comm::Communicator& group, const Tensor& partial, const char* name);

// send[r] rows go to rank r and receive[r] come from it. Backward: the other way round.
Tensor exchange_rows(comm::Communicator& group, const Tensor& x, const std::vector<int64_t>& send, const std::vector<int64_t>& receive,
                     const char* name);

}  // namespace longhaul::parallel
