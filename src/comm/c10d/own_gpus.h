// require_own_gpus: each rank must have a GPU of its own. A launcher that shows every process all GPUs, with
// `train.device = cuda:0` in the recipe, would put all ranks of a machine on one, which NCCL refuses late and
// in words of its own.
#pragma once

#include <string>

#include "comm/communicator.h"
#include "tensor/device.h"

namespace longhaul::comm {

// A collective call of all ranks. `identity`: gpu_identity() of this rank's GPU. Error 64 on all ranks
// when two have the same: it names them.
void require_own_gpus(Communicator& world, const std::string& identity, at::Device device);

}  // namespace longhaul::comm
