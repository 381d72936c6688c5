#include "kernels/scratch.h"

#include "kernels/matmul/scratch.h"

namespace longhaul::kernels {

std::byte* thread_buffer(size_t bytes) {
  static thread_local Scratch scratch;
  return scratch.take<std::byte>(static_cast<int64_t>(bytes));
}

}  // namespace longhaul::kernels
