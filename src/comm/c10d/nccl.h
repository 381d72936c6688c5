// NCCL, through c10d's ProcessGroupNCCL, for ranks that are processes with a GPU each. Compiled in where LibTorch has CUDA and nccl.h is there
// (cmake/cuda.cmake); it compiles, and has never run on a GPU.
#pragma once

#include <memory>

#include "comm/communicator.h"
#include "comm/placement.h"

namespace longhaul::comm {

bool has_nccl();

// The same ranks, with calls on GPUs over NCCL and all others over `cpu`. Each process's current GPU is its own. The ranks meet at the store that `place` names.
// Error 69 where NCCL is not compiled in or the store does not answer.
std::unique_ptr<Communicator> with_nccl(std::unique_ptr<Communicator> cpu, const Placement& place, Timeout timeout);

}  // namespace longhaul::comm
