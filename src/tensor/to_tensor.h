// A list of numbers (token ids, labels, offsets) as a tensor [n] of int64 on the CPU, with memory of its own.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/tensor.h"

namespace longhaul {

Tensor to_tensor(std::span<const int64_t> values);
Tensor to_tensor(std::span<const int32_t> values);

}  // namespace longhaul
