// Working memory of kernels that is kept between calls, so that the allocator is not called for every
// product. It is counted as workspace (base/memory/memory_purpose.h).
//
// Scratch is one buffer that only grows; each request discards its contents. A kernel that needs one piece
// has one for each thread:
//   static thread_local Scratch scratch;
//   float* const sums = scratch.take<float>(n);
//
// A kernel that needs several pieces cuts them with an Arena from the buffer that every thread has: it
// names its pieces in one constructor, which runs twice, first on an empty arena to compute the size, then
// on the buffer. Only one kernel of a thread may use the buffer at a time, so such a kernel does not call
// another.
//   struct Pieces { explicit Pieces(Arena& arena) : scores(arena.take<float>(n)) {} float* scores; };
//   const auto pieces = scratch_of_thread<Pieces>([&](Arena& arena) { return Pieces(arena); });
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/tensor.h"

namespace longhaul::kernels {

class Scratch {
 public:
  // 64-byte aligned, uninitialised.
  template <class Element>
  Element* take(int64_t count) {
    return static_cast<Element*>(bytes(count * static_cast<int64_t>(sizeof(Element))));
  }

 private:
  void* bytes(int64_t count);

  Tensor memory_;
};

// at least this many, aligned to 64; valid until this thread's next call
std::byte* thread_buffer(size_t bytes);

class Arena {
 public:
  explicit Arena(std::byte* base) : base_(base) {}
  template <class T>
  T* take(int64_t count) {
    T* const piece = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
    used_ += (static_cast<size_t>(count) * sizeof(T) + 63) / 64 * 64;
    return piece;
  }
  size_t used() const { return used_; }

 private:
  std::byte* base_;
  size_t used_ = 0;
};

template <class Make>
size_t scratch_bytes(const Make& make) {
  Arena counted(nullptr);
  make(counted);
  return counted.used();
}

template <class Make>
auto scratch_of_thread(const Make& make) {
  Arena arena(thread_buffer(scratch_bytes(make)));
  return make(arena);
}

}  // namespace longhaul::kernels
