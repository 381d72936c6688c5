#include "tensor/to_tensor.h"

#include <algorithm>

#include "tensor/memory_purpose.h"

namespace longhaul {
namespace {

template <class Number>
Tensor copied(std::span<const Number> values) {
  const MemoryPurposeScope scope(MemoryPurpose::kData);
  Tensor tensor = at::empty({static_cast<int64_t>(values.size())}, at::kLong);
  std::copy(values.begin(), values.end(), tensor.mutable_data_ptr<int64_t>());
  return tensor;
}

}  // namespace

Tensor to_tensor(std::span<const int64_t> values) { return copied(values); }
Tensor to_tensor(std::span<const int32_t> values) { return copied(values); }

}  // namespace longhaul
