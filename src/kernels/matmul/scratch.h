// Memory that a thread keeps between calls, for blocks and packed operands: the allocator is asked once, not at every product. Grows to
// the largest request and never shrinks; what was in it is lost with the next request.
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace longhaul::kernels {

class Scratch {
 public:
  // 64-byte aligned, uninitialised; counted as workspace.
  template <class Element>
  Element* take(int64_t count) {
    return static_cast<Element*>(bytes(count * static_cast<int64_t>(sizeof(Element))));
  }

 private:
  void* bytes(int64_t count);

  Tensor memory_;
};

}  // namespace longhaul::kernels
