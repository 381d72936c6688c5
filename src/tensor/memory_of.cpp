#include "tensor/memory_of.h"

#include "base/error.h"

namespace longhaul {
namespace {

size_t bytes_of(const Tensor& whole) { return static_cast<size_t>(whole.numel()) * whole.element_size(); }

}  // namespace

bool has_memory(const Tensor& whole) { return whole.storage().nbytes() == bytes_of(whole); }

void release_memory(const Tensor& whole) {
  c10::StorageImpl* const storage = whole.storage().unsafeGetStorageImpl();
  LONGHAUL_ASSERT(whole.storage_offset() == 0 && whole.is_contiguous(), "a part of a storage");
  storage->set_nbytes(0);
  storage->set_data_ptr_noswap(at::DataPtr(nullptr, whole.device()));
}

void take_memory(const Tensor& whole) {
  if (has_memory(whole)) return;
  c10::StorageImpl* const storage = whole.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(storage->allocator()->allocate(bytes_of(whole)));
  storage->set_nbytes(bytes_of(whole));
}

}  // namespace longhaul
