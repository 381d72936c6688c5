// NCCL, through c10d's ProcessGroupNCCL, for ranks that are processes with a GPU each. It is compiled in
// when LibTorch has CUDA and nccl.h is found (cmake/cuda.cmake). It compiles against LibTorch 2.11
// with CUDA 13 and NCCL 2.28.9, and no process has run it on a GPU.
#pragma once

#include <memory>

#include "comm/communicator.h"
#include "comm/placement.h"
#include "tensor/device.h"

namespace longhaul::comm {

bool has_nccl();

// A communicator of the same ranks that sends calls with tensors of `gpu`, this process's own, over NCCL and
// all others over `cpu`. The ranks meet at the store that `place` names. Error 69 when NCCL is not compiled
// in or the store does not answer.
std::unique_ptr<Communicator> with_nccl(std::unique_ptr<Communicator> cpu, const Placement& place,
                                        at::Device gpu, Timeout timeout);

}  // namespace longhaul::comm
