// Collectives inside autograd; the backward pass of each is its conjugate collective. Rows are dimension 0,
// and `rows` says how many each rank has. All ranks of a group must record the same sequence of collectives,
// so that they meet in the same order in the backward pass.
//
// Each collective has two forms. The plain call waits for its end. In halves, begin_…() starts the collective
// and end() waits for it, and each half is a node of the graph. The backward pass visits the two nodes in
// reverse: the node of end() starts the conjugate collective, and that of begin_…() waits for it. So whatever
// was computed between the two halves in the forward pass has its backward pass between them as well.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/threads/turns.h"
#include "comm/communicator.h"
#include "tensor/tensor.h"

namespace longhaul::parallel {

// Gathers the rows of all ranks, in the order of ranks. Backward: reduce-scatter of the gradients.
Tensor gather_rows(comm::Communicator& group, const Tensor& own, const std::vector<int64_t>& rows,
                   const char* name);
// The same for few rows: a recomputed layer keeps the result (kernels/saved/recomputed.h) and gathers only
// once.
Tensor gather_rows_once(comm::Communicator& group, const Tensor& own, const std::vector<int64_t>& rows,
                        const char* name);

// Reduce-scatter: this rank's rows of the sum. Backward: all-gather.
Tensor sum_scatter_rows(comm::Communicator& group, const Tensor& partial, const std::vector<int64_t>& rows,
                        const char* name);

// All-reduce: the sum, which every rank uses separately. Backward: the gradients are summed as well.
Tensor sum_everywhere(comm::Communicator& group, const Tensor& partial, const char* name);

// All-to-all: send[r] rows go to rank r and receive[r] rows come from it. Backward: the reverse exchange.
Tensor exchange_rows(comm::Communicator& group, const Tensor& x, const std::vector<int64_t>& send,
                     const std::vector<int64_t>& receive, const char* name);

// A collective in progress. `values` must not be read before end().
struct Begun {
  Tensor values;
  std::shared_ptr<struct Halves> halves;  // null: nothing is in progress, and `values` are complete
};
Begun begin_gather_rows(comm::Communicator& group, const Tensor& own, const std::vector<int64_t>& rows,
                        const char* name);
Begun begin_sum_scatter_rows(comm::Communicator& group, const Tensor& partial,
                             const std::vector<int64_t>& rows, const char* name);
Begun begin_exchange_rows(comm::Communicator& group, const Tensor& x, const std::vector<int64_t>& send,
                          const std::vector<int64_t>& receive, const char* name);
// Called right before end() of a collective that takes long enough: the other body of a pair runs
// (base/threads/turns.h), and in the backward pass it runs between the start of the conjugate and the wait
// for it. Returns its argument unchanged where nothing is in progress or turns is null.
Begun in_turn(Begun begun, Turns* turns);
// Returns x, whose gradient continues once the other body of the pair has ended; x unchanged where turns is
// null.
Tensor last_in_turn(const Tensor& x, Turns* turns);
// `meanwhile` is called in the backward pass as soon as the conjugate collective has started.
Tensor end(const Begun& begun, std::function<void()> meanwhile = {});

}  // namespace longhaul::parallel
