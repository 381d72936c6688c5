// Working memory of kernels: one buffer per thread that only grows and is kept for the next call, cut into pieces by an Arena. A kernel
// names its pieces in one constructor, which runs twice: on an empty arena to learn the size, then on the buffer.
//
//   struct Pieces { explicit Pieces(Arena& arena) : scores(arena.take<float>(n)) {} float* scores; };
//   const auto pieces = scratch_of_thread<Pieces>([&](Arena& arena) { return Pieces(arena); });
//
// One user per thread at a time: a kernel does not call another that uses it. Counted as workspace (base/memory_purpose.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace longhaul::kernels {

std::byte* thread_buffer(size_t bytes);  // at least this many, aligned to 64; valid until this thread's next call

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
