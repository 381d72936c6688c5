// Collectives inside autograd: each with its conjugate as backward pass. Rows are dimension 0; `rows`: how many each rank has. All ranks
// of a group must record the same sequence of them, and so they meet again in the backward pass.
//
// Each comes in two forms. Plain: the call waits for its end. In halves: begin_…() starts the collective and end() waits for it, each a node
// of the graph. The backward pass meets them the other way round: end()'s node starts the conjugate, begin's waits for it. So what was
// computed between the halves forward has its backward pass between them too, whatever it is.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/threads/turns.h"
#include "comm/communicator.h"
#include "tensor/tensor.h"

namespace longhaul::parallel {

// The rows of all ranks, in their order. Backward: the gradients that all ranks have of them are summed.
Tensor gather_rows(comm::Communicator& group, const Tensor& own, const std::vector<int64_t>& rows, const char* name);
// The same; a layer that is recomputed keeps them (kernels/recomputed.h) and gathers once: for few rows.
Tensor gather_rows_once(comm::Communicator& group, const Tensor& own, const std::vector<int64_t>& rows, const char* name);

// This rank's rows of the sum. Backward: gathered.
Tensor sum_scatter_rows(comm::Communicator& group, const Tensor& partial, const std::vector<int64_t>& rows, const char* name);

// The sum, which every rank uses for itself. Backward: the gradients are summed too.
Tensor sum_everywhere(comm::Communicator& group, const Tensor& partial, const char* name);

// send[r] rows go to rank r and receive[r] come from it. Backward: the other way round.
Tensor exchange_rows(comm::Communicator& group, const Tensor& x, const std::vector<int64_t>& send, const std::vector<int64_t>& receive,
                     const char* name);

// A collective that goes on. Nobody reads `values` before end().
struct Begun {
  Tensor values;
  std::shared_ptr<struct Halves> halves;  // null: nothing goes on, `values` are there
};
Begun begin_gather_rows(comm::Communicator& group, const Tensor& own, const std::vector<int64_t>& rows, const char* name);
Begun begin_sum_scatter_rows(comm::Communicator& group, const Tensor& partial, const std::vector<int64_t>& rows, const char* name);
Begun begin_exchange_rows(comm::Communicator& group, const Tensor& x, const std::vector<int64_t>& send, const std::vector<int64_t>& receive,
                          const char* name);
// Right before end(), of a collective that is worth it: another body goes on (base/threads/turns.h), and in the backward pass likewise between the start of the
// conjugate and the wait for it. As it is where nothing goes on, or turns is null.
Begun in_turn(Begun begun, Turns* turns);
// x, whose gradient goes on when the other body has ended. As it is where turns is null.
Tensor last_in_turn(const Tensor& x, Turns* turns);
// `meanwhile`: called in the backward pass as soon as the conjugate has been started.
Tensor end(const Begun& begun, std::function<void()> meanwhile = {});

}  // namespace longhaul::parallel
