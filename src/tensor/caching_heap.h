// CachingHeap: memory for tensors that is taken from the system once and then reused, so that a training step sees no fresh page
// (fresh pages cost a step 1.5–2×, specs docs/sources/cpu-performance.md §2) and no lock of the system's. 64-byte aligned, in huge pages.
//
//   small   up to 16 KiB   size classes (four a doubling), entries of slabs of 256 KiB
//   medium  up to 1 MiB    best fit in ranges of 64 MiB
//   large   above          best fit in ranges of 1 GiB of address space
//
// Before it takes more from the system than the limit, or than the machine has left, it gives back what lies free; only then does it
// fail. Thread-safe: one lock, held for a few dozen instructions; a block may be freed by another thread than the one that took it.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "base/memory/memory_purpose.h"
#include "tensor/block_pool.h"

namespace longhaul {

class CachingHeap {
 public:
  explicit CachingHeap(int64_t limit_bytes = 0);  // held at most; 0: what the machine has available

  void* allocate(size_t bytes, MemoryPurpose purpose);  // null: cannot be had
  void free(void* data);                                // of this heap
  void trim();                                          // gives back all that lies free

  MemoryStatistics statistics() const;
  void reset_peaks();  // to what is in use now

  // Test mode: fresh and freed memory is filled with bytes 0xff (NaN in every floating dtype, −1 in integers) and blocks are followed
  // by a guard band. Holds for blocks allocated while it is on.
  void set_poison(bool on);
  // One line for each guard band that was overwritten, of blocks in use and of those freed since the last call.
  std::vector<std::string> damage();

 private:
  static constexpr size_t kSmallClasses = 27;
  Block* take_small(size_t size);
  Block* take(size_t size);
  Block* cut_from(BlockPool& pool, size_t size);
  bool room_for(size_t fresh_bytes);
  void trim_locked();
  void free_small(Block* block);
  void put_slab_first(Slab* slab);
  void unlink(Slab* slab);
  void fence(Block* block, size_t bytes);
  void check_fence(Block* block, std::vector<std::string>& into) const;
  void count(MemoryPurpose purpose, int64_t bytes, int64_t blocks);
  size_t held() const { return medium_.held_bytes() + large_.held_bytes(); }

  mutable std::mutex mutex_;
  BlockPool medium_, large_;
  std::array<Slab*, kSmallClasses> open_slabs_{};  // by class, those with a free entry
  const int64_t limit_;
  int64_t allowance_ = 0;  // bytes that may be taken before the machine is asked again
  bool poison_ = false;
  MemoryStatistics statistics_;
  std::vector<std::string> freed_damage_;
};

}  // namespace longhaul
