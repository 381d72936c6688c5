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
#include <exception>
#include <functional>
#include <vector>

#include "comm/threads/thread_group.h"

namespace longhaul::comm {

// A rank that hangs outside of all calls (a disk that does not answer, a loop without an end) is a thread that nobody can end: when the others have failed
// and it has not come back `patience` later, `end` is told, whose business it is to end the process. When it returns, the rank is waited for.
struct StuckRanks {
  Timeout patience = std::chrono::seconds(10);
  std::function<void(const std::vector<int64_t>& ranks, const std::exception_ptr& failure)>
      end{};  // null: they are waited for, however long
};

void run_ranks(int64_t size, const std::function<void(Communicator& world)>& body, const ThreadGroupOptions& options = {},
               const StuckRanks& stuck = {});

}  // namespace longhaul::comm
