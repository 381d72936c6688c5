#include "kernels/scratch.h"

#include "base/memory/memory_purpose.h"

namespace longhaul::kernels {

void* Scratch::bytes(int64_t count) {
  if (!memory_.defined() || count > memory_.numel()) {
    const MemoryPurposeScope scope(MemoryPurpose::kWorkspace);
    memory_ = Tensor();  // its blocks are free for the larger request
    memory_ = at::empty({count}, at::TensorOptions().dtype(at::kByte).device(at::kCPU));
  }
  return memory_.mutable_data_ptr();
}

std::byte* thread_buffer(size_t bytes) {
  static thread_local Scratch scratch;
  return scratch.take<std::byte>(static_cast<int64_t>(bytes));
}

}  // namespace longhaul::kernels
