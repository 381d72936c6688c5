// gpu_identity: tells two GPUs apart, whatever numbers the processes that see them use.
#pragma once

#include <c10/core/Device.h>

#include <string>

namespace longhaul {

// The UUID that its driver gives the GPU, or a part of one (MIG): 32 hex digits. kDevice when the driver does
// not answer.
std::string gpu_identity(at::Device device);

}  // namespace longhaul
