// Makes a tensor [n] of int64, with memory of its own, from a list of numbers (token ids, labels,
// positions). For a GPU the copy is queued and the caller does not wait for it.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/tensor.h"

namespace longhaul {

Tensor to_tensor(std::span<const int64_t> values, at::Device device = at::kCPU);
Tensor to_tensor(std::span<const int32_t> values, at::Device device = at::kCPU);

}  // namespace longhaul
