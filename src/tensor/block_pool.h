// BlockPool: blocks of memory cut from large ranges of pages and kept for the next request. Best fit by size, then by address; a
// freed block joins its free neighbours, so the fragments of one pool are bounded by what lies between blocks in use.
//
// Every block begins with a header of 64 bytes; the memory it describes follows. Which huge pages of a range were ever handed out is
// known exactly, so the pool can say how much it holds of the machine (held_bytes) before it takes more, and give back what is free.
// Not thread-safe: CachingHeap holds a lock around it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "base/memory/memory_purpose.h"

namespace longhaul {

struct Slab;       // of CachingHeap
struct PageRange;  // of BlockPool

enum class BlockState : uint32_t {  // odd numbers: a header that was overwritten is seen
  kUsed = 0x5ee0c0de,
  kFree = 0x5ee0f4ee,
  kSmallUsed = 0x5ee0c057,
  kSmallFree = 0x5ee0f457,
};

struct alignas(64) Block {
  BlockState state;
  MemoryPurpose purpose;
  bool guarded;        // filled and fenced by the test mode
  uint64_t size;       // whole, this header included
  uint64_t requested;  // bytes the user asked for
  union {
    PageRange* range;  // kUsed, kFree
    Slab* slab;        // kSmallUsed, kSmallFree
  };
  Block* neighbour;  // the block before this one in its range, null for the first; of a free small block: the next free one

  char* data() { return reinterpret_cast<char*>(this) + sizeof(Block); }
  static Block* of(void* data) { return reinterpret_cast<Block*>(static_cast<char*>(data) - sizeof(Block)); }
};
static_assert(sizeof(Block) == 64);

class BlockPool {
 public:
  // Ranges have range_bytes, or more where one block needs more; blocks are multiples of `grain`, rests below `smallest` are not cut off.
  BlockPool(size_t range_bytes, size_t grain, size_t smallest);
  ~BlockPool();

  size_t rounded(size_t size) const;                          // what a block of at least `size` takes
  Block* find(size_t size);                                   // the free block to cut from; maps a range if need be; null: no address space
  size_t fresh_bytes(const Block* block, size_t size) const;  // how much held_bytes() grows by cutting `size` from it
  Block* cut(Block* block, size_t size);                      // in use from now on
  void free(Block* block);                                    // takes no memory: it must work when there is none
  void trim();  // whole pages inside free blocks go back to the system, empty ranges are unmapped
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
