// CachingHeap: memory for tensors that is taken from the system once and then reused, so that a training
// step uses no new pages (new pages make a step 1.5–2× as long, specs docs/sources/cpu-performance.md §2)
// and waits for no system lock. 64-byte aligned, in huge pages.
//
//   small   up to 16 KiB   size classes (four per doubling), entries of slabs of 256 KiB
//   medium  up to 1 MiB    best fit in ranges of 64 MiB
//   large   above          best fit in ranges of 1 GiB of address space
//
// Before it takes more memory from the system than the limit, or than the machine has left, it gives back
// its free memory; only if that is not enough does it fail. Thread-safe: one lock, held for a few dozen
// instructions; a block may be freed by another thread than the one that allocated it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/memory/memory_purpose.h"
#include "tensor/block_pool.h"

namespace longhaul {

class ReplayArena;

// A block cut into places that a plan has chosen (replay_arena.h).
struct PlannedMemory {
  Block* under = nullptr;
  std::map<int64_t, Block*> live{};  // by address
  bool abandoned = false;            // goes back with the last of them
};

class CachingHeap {
 public:
  // Upper limit of held memory; 0: what the machine has available.
  explicit CachingHeap(int64_t limit_bytes = 0);

  void* allocate(size_t bytes, MemoryPurpose purpose);  // null: not available
  void free(void* data);                                // frees a block of this heap
  void trim();                                          // gives all free memory back to the system

  MemoryStatistics statistics() const;
  void reset_peaks();  // resets the peaks to the current use

  // Test mode: fresh and freed memory is filled with bytes 0xff (NaN in every floating dtype, −1 in integers)
  // and blocks are followed by a guard band. Holds for blocks allocated while it is on.
  void set_poison(bool on);
  // One line for each guard band that was overwritten, of blocks in use and of those freed since the last
  // call.
  std::vector<std::string> damage();

 private:
  friend class ReplayArena;
  static constexpr size_t kSmallClasses = 27;
  Block* take_small(size_t size);
  Block* take(size_t size);
  Block* cut_from(BlockPool& pool, size_t size);
  bool room_for(size_t fresh_bytes);
  void trim_locked();
  void free_small(Block* block);
  void free_planned(Block* block);
  void free_unused(PlannedMemory* memory);
  void put_slab_first(Slab* slab);
  void unlink(Slab* slab);
  void fence(Block* block, size_t bytes);
  void check_fence(Block* block, std::vector<std::string>& into) const;
  void count(MemoryPurpose purpose, int64_t bytes, int64_t blocks);
  size_t held() const { return medium_.held_bytes() + large_.held_bytes(); }

  mutable std::mutex mutex_;
  BlockPool medium_, large_;
  std::array<Slab*, kSmallClasses> open_slabs_{};  // by size class, the slabs with a free entry
  std::vector<std::unique_ptr<PlannedMemory>> planned_;
  std::vector<ReplayArena*> logging_;  // those that log a step now
  const int64_t limit_;
  int64_t allowance_ = 0;  // bytes that may be taken before the available memory is queried again
  bool poison_ = false;
  MemoryStatistics statistics_;
  std::vector<std::string> freed_damage_;
};

}  // namespace longhaul
