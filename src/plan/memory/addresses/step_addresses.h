// Addresses of what a training step asks for, on the two levels of MEMO (part B4 of
// docs/sources/long-context-parallelism.md). The step is cut into parts, a layer's forward or backward pass
// each. What begins and ends within a part is planned for that part alone, and once for all parts that ask
// for the same in the same order. Then each part is one request of that size among those that outlive a part.
//
// A part's block is taken whole, though not all of it is used all the time; so everything is also placed
// greedily at once, and the smaller plan is returned.
#pragma once

#include "plan/memory/addresses/address_plan.h"

namespace longhaul::plan {

struct StepAddresses {
  AddressPlan plan;   // of all requests; `optimal`: its peak is the bound of live bytes
  int64_t parts = 0;  // that have requests of their own
  int64_t kinds = 0;  // of parts: the searches of the first level
};

// cuts: the times at which one part ends and the next begins, ascending.
StepAddresses plan_step(std::span<const TensorLife> requests, std::span<const int64_t> cuts,
                        int64_t most_looks = kMostLooks);

}  // namespace longhaul::plan
