// run_ranks: runs a function on every rank of a new ThreadGroup, each rank in a thread of its own.
//
//   run_ranks(4, [](Communicator& world) { … world.all_reduce(x, Reduction::kSum, {"x"}).wait(); … });
//
// It returns when all ranks have ended. When a rank throws, the group is aborted, so that no other rank
// waits for it; then run_ranks throws the exception of the first rank that has one of its own (not an
// Aborted). A rank that returns while others still need it makes them fail.
//
// The ranks share the compute threads of the caller evenly, at least one each. LibTorch's thread-local
// settings are the defaults: gradients are recorded, and there is no MemoryPurposeScope. The backward pass
// of CPU tensors runs in the rank's thread that calls it.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <vector>

#include "comm/threads/thread_group.h"

namespace longhaul::comm {

// A rank that hangs outside of all calls (a disk that does not answer, an endless loop) is a thread that
// cannot be ended. If the other ranks have failed and it has not returned after `patience`, `end` is
// called, which should end the process. If `end` returns, run_ranks waits for the rank.
struct StuckRanks {
  Timeout patience = std::chrono::seconds(10);
  std::function<void(const std::vector<int64_t>& ranks, const std::exception_ptr& failure)>
      end{};  // null: run_ranks waits for them without limit
};

void run_ranks(int64_t size, const std::function<void(Communicator& world)>& body,
               const ThreadGroupOptions& options = {}, const StuckRanks& stuck = {});

}  // namespace longhaul::comm
