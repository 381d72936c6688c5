#include "kernels/matmul/scratch.h"

#include <cstdlib>
#include <new>

namespace longhaul::kernels {

void Scratch::Free::operator()(void* memory) const { std::free(memory); }

void* Scratch::bytes(size_t count) {
  if (count > size_) {
    memory_.reset();
    size_ = 0;
    const size_t rounded = (count + 4095) / 4096 * 4096;
    memory_.reset(std::aligned_alloc(4096, rounded));
    if (!memory_) throw std::bad_alloc();
    size_ = rounded;
  }
  return memory_.get();
}

}  // namespace longhaul::kernels
