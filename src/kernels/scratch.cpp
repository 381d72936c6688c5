#include "kernels/scratch.h"

#include <cstdlib>
#include <memory>
#include <new>

namespace longhaul::kernels {

std::byte* thread_buffer(size_t bytes) {
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  thread_local std::unique_ptr<std::byte, Free> buffer;
  thread_local size_t capacity = 0;
  if (bytes > capacity || buffer == nullptr) {
    buffer.reset();
    capacity = 0;
    const size_t rounded = (bytes + 4096) / 4096 * 4096;
    buffer.reset(static_cast<std::byte*>(std::aligned_alloc(4096, rounded)));
    if (buffer == nullptr) throw std::bad_alloc();
    capacity = rounded;
  }
  return buffer.get();
}

}  // namespace longhaul::kernels
