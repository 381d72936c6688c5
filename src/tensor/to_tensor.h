// A list of numbers (token ids, labels, positions) as a tensor [n] of int64 with memory of its own. For a GPU the copy is queued; nobody
// waits for it.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/tensor.h"

namespace longhaul {

Tensor to_tensor(std::span<const int64_t> values, at::Device device = at::kCPU);
Tensor to_tensor(std::span<const int32_t> values, at::Device device = at::kCPU);

}  // namespace longhaul
