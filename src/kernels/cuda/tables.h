// Small tables that the host makes for a device: boundaries of documents, tiles, addresses of pages.
#pragma once

#include <vector>

#include "tensor/tensor.h"

namespace longhaul::kernels::cuda {

// The same bytes on the device of `like`. Kept for the thread's next calls on this stream with the same
// bytes: layers of a step share their documents.
Tensor table_bytes(const void* bytes, int64_t count, const Tensor& like);

template <class T>
struct Table {
  Table(const std::vector<T>& values, const Tensor& like)
      : memory(table_bytes(values.data(), static_cast<int64_t>(values.size() * sizeof(T)), like)),
        size(static_cast<int64_t>(values.size())) {}
  const T* data() const { return static_cast<const T*>(memory.const_data_ptr()); }
  Tensor memory;
  int64_t size;
};

}  // namespace longhaul::kernels::cuda
