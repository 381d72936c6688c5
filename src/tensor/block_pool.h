// BlockPool: blocks of memory that are cut from large ranges of pages and kept for the next request. The
// best fit is chosen by size, then by address. A freed block merges with its free neighbours, so
// fragmentation is limited to the gaps between blocks in use.
//
// Every block begins with a header of 64 bytes, followed by the memory that it describes. The pool tracks
// exactly which huge pages of a range were ever used, so it knows how much of the machine's memory it holds
// (held_bytes) before it takes more, and can give back the free part. Not thread-safe: CachingHeap holds a
// lock around it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "base/memory/memory_purpose.h"

namespace longhaul {

struct Slab;           // of CachingHeap
struct PageRange;      // of BlockPool
struct PlannedMemory;  // of ReplayArena

enum class BlockState : uint32_t {  // unusual numbers, so that an overwritten header is detected
  kUsed = 0x5ee0c0de,
  kFree = 0x5ee0f4ee,
  kSmallUsed = 0x5ee0c057,
  kSmallFree = 0x5ee0f457,
  kPlannedUsed = 0x5ee0c0a4,
  kPlannedFree = 0x5ee0f4a4,
};

struct alignas(64) Block {
  BlockState state;
  MemoryPurpose purpose;
  bool guarded;        // filled and fenced by the test mode
  uint64_t size;       // size of the whole block, this header included
  uint64_t requested;  // bytes the user asked for
  union {
    PageRange* range;        // kUsed, kFree
    Slab* slab;              // kSmallUsed, kSmallFree
    PlannedMemory* planned;  // kPlannedUsed
  };
  // The block before this one in its range, null for the first; for a free small block: the next free one.
  Block* neighbour;
  uint64_t log_number, log_index;  // the log that has the request (replay_arena.h), and where; 0: none

  char* data() { return reinterpret_cast<char*>(this) + sizeof(Block); }
  static Block* of(void* data) { return reinterpret_cast<Block*>(static_cast<char*>(data) - sizeof(Block)); }
};
static_assert(sizeof(Block) == 64);

class BlockPool {
 public:
  // Ranges have range_bytes, or more if one block needs more. Block sizes are multiples of `grain`; a rest
  // smaller than `smallest` is not cut off.
  BlockPool(size_t range_bytes, size_t grain, size_t smallest);
  ~BlockPool();

  // The size of a block that holds at least `size`.
  size_t rounded(size_t size) const;
  // The free block to cut from; maps a range if needed; null: no address space.
  Block* find(size_t size);
  // how much held_bytes() grows by cutting `size` from it
  size_t fresh_bytes(const Block* block, size_t size) const;
  Block* cut(Block* block, size_t size);  // the block is in use from now on
  // Needs no memory: it must work when there is none.
  void free(Block* block);
  void trim();  // returns whole pages inside free blocks to the system and unmaps empty ranges
  size_t held_bytes() const { return held_; }
  void for_each_used(const std::function<void(Block*)>& body) const;
  static BlockPool& of(const Block* block);  // the pool that a used block was cut from

 private:
  using FreeBlocks = std::set<std::pair<size_t, Block*>>;
  static FreeBlocks::node_type new_entry();
  void add_free(Block* block, FreeBlocks::node_type entry);
  Block* map_range(size_t size);
  Block* after(Block* block) const;

  size_t range_bytes_, grain_, smallest_;
  size_t held_ = 0;
  std::vector<std::unique_ptr<PageRange>> ranges_;
  FreeBlocks free_;
  std::vector<FreeBlocks::node_type> spares_;  // an entry of free_ for each block in use
};

}  // namespace longhaul
