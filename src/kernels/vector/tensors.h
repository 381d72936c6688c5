// Converts tensors to the arguments of the inner loops.
#pragma once

#include "kernels/vector/storage.h"
#include "tensor/tensor.h"

namespace longhaul::kernels {

// Every operator asks this before its first loop, so it is also where LONGHAUL_CPU is obeyed: the loops use
// no instruction set beyond the block kernels' (kernels/block) of that name. An unknown name is an error.
Storage storage_of(const Tensor& tensor);

// The type such elements are computed and summed in: fp64 for fp64, else fp32.
inline ScalarType wide_type(const Tensor& tensor) {
  return tensor.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// Null for an undefined tensor.
inline const void* pointer_to(const Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr() : nullptr;
}
inline void* writable(const Tensor& tensor) { return tensor.defined() ? tensor.mutable_data_ptr() : nullptr; }
// Row i of a contiguous matrix; null for an undefined one.
inline void* writable_row(const Tensor& matrix, int64_t i) {
  return matrix.defined()
             ? static_cast<char*>(matrix.mutable_data_ptr()) + i * matrix.size(1) * matrix.element_size()
             : nullptr;
}

}  // namespace longhaul::kernels
