// Refuses what does not fit into memory before anything of it is allocated.
#pragma once

#include "plan/memory.h"

namespace longhaul::plan {

// What must be free where the weights are: on a CPU everything, on a GPU all but data and the checkpoint's copy, which are the host's.
double needed_bytes(const MemoryRequest& request, const MemoryPlan& plan);

// Error 68 when that is more than is there: the plan by purpose, what is free, and which option lowers it to what figure.
void require_memory(const MemoryRequest& request, int64_t available_bytes);

}  // namespace longhaul::plan
