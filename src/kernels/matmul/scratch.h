// Memory that a thread keeps between calls, for blocks and packed operands: the system is asked once, not at every product. Grows to the
// largest request and never shrinks; what was in it is lost with the next request of the same slot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace longhaul::kernels {

class Scratch {
 public:
  // 64-byte aligned, uninitialised.
  template <class Element>
  Element* take(int64_t count) {
    return static_cast<Element*>(bytes(static_cast<size_t>(count) * sizeof(Element)));
  }

 private:
  struct Free {
    void operator()(void* memory) const;
  };
  void* bytes(size_t count);

  std::unique_ptr<void, Free> memory_;
  size_t size_ = 0;
};

}  // namespace longhaul::kernels
