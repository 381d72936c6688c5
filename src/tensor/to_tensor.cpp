#include "tensor/to_tensor.h"

#include <algorithm>

#include "base/memory/memory_purpose.h"
#include "tensor/device.h"

namespace longhaul {
namespace {

template <class Number>
Tensor copied(std::span<const Number> values, at::Device device) {
  const MemoryPurposeScope scope(MemoryPurpose::kData);
  Tensor tensor = empty_host_tensor({static_cast<int64_t>(values.size())}, at::kLong, device);
  std::copy(values.begin(), values.end(), tensor.mutable_data_ptr<int64_t>());
  return device.is_cpu() ? tensor : tensor.to(device, /*non_blocking=*/true);
}

}  // namespace

Tensor to_tensor(std::span<const int64_t> values, at::Device device) { return copied(values, device); }
Tensor to_tensor(std::span<const int32_t> values, at::Device device) { return copied(values, device); }

}  // namespace longhaul
