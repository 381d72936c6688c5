// run_ranks: a function on every rank of a fresh ThreadGroup, each rank a thread of its own.
//
//   run_ranks(4, [](Communicator& world) { … world.all_reduce(x, Reduction::kSum, {"x"}).wait(); … });
//
// Returns when all have ended. When a rank throws, the group is aborted, so that no other waits for it; then the exception of the first rank
// that has one of its own (not an Aborted) is thrown here. A rank that returns while others still need it makes them fail.
//
// The ranks share the compute threads of the caller evenly, at least one each. What LibTorch keeps for a thread is fresh: gradients
// are recorded, there is no MemoryPurposeScope. The backward pass of CPU tensors runs in the rank's thread that calls it.
#pragma once

#include <cstdint>
#include <functional>

#include "comm/thread_group.h"

namespace longhaul::comm {

void run_ranks(int64_t size, const std::function<void(Communicator& world)>& body, const ThreadGroupOptions& options = {});

}  // namespace longhaul::comm
