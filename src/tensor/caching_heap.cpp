#include "tensor/caching_heap.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "base/log.h"
#include "base/machine/machine.h"
#include "tensor/replay_arena.h"

namespace longhaul {

// A block of the medium pool cut into entries of one size.
struct Slab {
  Slab *next, *previous;  // among the slabs of the class that have a free entry
  Block* free;            // entries that were used before
  uint32_t size_class;
  uint32_t entry_bytes, capacity, begun, live;
};

namespace {

constexpr size_t kSmallest = 128;           // a header and 64 bytes
constexpr size_t kLargestSmall = 16 << 10;  // header included, as all sizes here
constexpr size_t kLargestMedium = 1 << 20;
constexpr size_t kSlabBytes = 256 << 10;
constexpr size_t kGuardBytes = 64;
constexpr int64_t kSpare = int64_t{128} << 20;  // of the machine, left to what is not a tensor
constexpr unsigned char kPoison = 0xff, kGuard = 0xa5;

// 128, 192, 256, then four classes a doubling: 320, 384, 448, 512, 640, … 16,384.
size_t class_of(size_t size) {
  if (size <= 256) return size <= kSmallest ? 0 : (size - kSmallest + 63) / 64;
  const size_t above = static_cast<size_t>(std::bit_width(size - 1)) - 1;  // 2^above < size ≤ 2^(above + 1)
  const size_t quarter = (size - (size_t{1} << above) + (size_t{1} << (above - 2)) - 1) >> (above - 2);
  return 2 + (above - 8) * 4 + quarter;
}
size_t class_bytes(size_t index) {
  if (index <= 2) return kSmallest + 64 * index;
  const size_t above = 8 + (index - 3) / 4;
  return (size_t{1} << above) + ((index - 3) % 4 + 1) * (size_t{1} << (above - 2));
}

Slab* slab_in(Block* block) { return reinterpret_cast<Slab*>(block->data()); }
Block* block_under(Slab* slab) { return Block::of(slab); }
Block* entry(Slab* slab, size_t i) {
  return reinterpret_cast<Block*>(reinterpret_cast<char*>(slab) + sizeof(Block) + i * slab->entry_bytes);
}

// Freeing cannot throw, and going on after this would spoil someone else's numbers.
[[noreturn]] void broken(const void* data, const char* what) {
  log_error("memory at {} was {}: this is a bug in Longhaul, please report it with the command that led here",
            data, what);
  std::abort();
}

}  // namespace

CachingHeap::CachingHeap(int64_t limit_bytes)
    : medium_(size_t{64} << 20, 1 << 10, kLargestSmall),
      large_(size_t{1} << 30, 4 << 10, 64 << 10),
      limit_(limit_bytes) {
  LONGHAUL_ASSERT(class_of(kLargestSmall) + 1 == kSmallClasses &&
                  class_bytes(class_of(kLargestSmall)) == kLargestSmall);
}

bool CachingHeap::room_for(size_t fresh_bytes) {
  const auto fresh = static_cast<int64_t>(fresh_bytes);
  if (limit_ > 0) return static_cast<int64_t>(held()) + fresh <= limit_;
  if (fresh > allowance_) {
    // Asking takes tens of microseconds; a quarter of what is left may be taken before the next time.
    const int64_t available = available_memory_bytes() - kSpare;
    if (fresh > available) return false;
    allowance_ = fresh + (available - fresh) / 4;
  }
  allowance_ -= fresh;
  return true;
}

Block* CachingHeap::cut_from(BlockPool& pool, size_t size) {
  for (const bool last : {false, true}) {
    Block* block = pool.find(size);
    if (block != nullptr) {
      const size_t fresh = pool.fresh_bytes(block, size);
      if (fresh == 0 || room_for(fresh)) return pool.cut(block, size);
    }
    if (!last) trim_locked();
  }
  return nullptr;
}

Block* CachingHeap::take(size_t size) {
  if (size <= kLargestSmall) return take_small(size);
  BlockPool& pool = size <= kLargestMedium ? medium_ : large_;
  return cut_from(pool, pool.rounded(size));
}

Block* CachingHeap::take_small(size_t size) {
  const size_t index = class_of(size);
  Slab* slab = open_slabs_[index];
  if (slab == nullptr) {
    Block* under = cut_from(medium_, kSlabBytes);
    if (under == nullptr) return nullptr;
    under->purpose = MemoryPurpose::kOther;
    under->guarded = false;
    under->log_number = 0;
    under->requested = 0;  // no user's: its entries are counted
    slab = new (slab_in(under)) Slab{};
    slab->size_class = static_cast<uint32_t>(index);
    slab->entry_bytes = static_cast<uint32_t>(class_bytes(index));
    slab->capacity = static_cast<uint32_t>((kSlabBytes - 2 * sizeof(Block)) / slab->entry_bytes);
    put_slab_first(slab);
  }
  Block* block = slab->free;
  if (block != nullptr) {
    slab->free = block->neighbour;
  } else {
    block = new (entry(slab, slab->begun++)) Block{.size = slab->entry_bytes, .slab = slab};
  }
  block->state = BlockState::kSmallUsed;
  if (++slab->live == slab->capacity) unlink(slab);
  return block;
}

void CachingHeap::put_slab_first(Slab* slab) {
  Slab*& first = open_slabs_[slab->size_class];
  slab->previous = nullptr;
  slab->next = first;
  if (first != nullptr) first->previous = slab;
  first = slab;
}

void CachingHeap::unlink(Slab* slab) {
  (slab->previous != nullptr ? slab->previous->next : open_slabs_[slab->size_class]) = slab->next;
  if (slab->next != nullptr) slab->next->previous = slab->previous;
}

void CachingHeap::free_small(Block* block) {
  Slab* slab = block->slab;
  block->state = BlockState::kSmallFree;
  block->neighbour = slab->free;
  slab->free = block;
  if (slab->live-- == slab->capacity) put_slab_first(slab);
  // An empty slab goes back when the class has another with room: at most one empty slab a class stays.
  if (slab->live == 0 && (slab->next != nullptr || slab->previous != nullptr)) {
    unlink(slab);
    medium_.free(block_under(slab));
  }
}

void CachingHeap::count(MemoryPurpose purpose, int64_t bytes, int64_t blocks) {
  for (MemoryUse* use : {&statistics_.purposes[static_cast<size_t>(purpose)], &statistics_.total}) {
    use->bytes += bytes;
    use->blocks += blocks;
    use->peak = std::max(use->peak, use->bytes);
  }
}

void* CachingHeap::allocate(size_t bytes, MemoryPurpose purpose) {
  const std::lock_guard lock(mutex_);
  ReplayArena* const arena = bytes >= ReplayArena::kLeast ? ReplayArena::current_of(*this) : nullptr;
  Block* block = arena != nullptr ? arena->take(bytes) : nullptr;
  if (block == nullptr) block = take(sizeof(Block) + bytes + (poison_ ? kGuardBytes : 0));
  if (block == nullptr) return nullptr;
  block->purpose = purpose;
  block->requested = bytes;
  block->guarded = poison_;
  block->log_number = 0;
  if (arena != nullptr) arena->note(block, bytes);
  if (poison_) fence(block, bytes);
  count(purpose, static_cast<int64_t>(bytes), 1);
  ++statistics_.allocations;
  statistics_.peak_held_bytes = std::max(statistics_.peak_held_bytes, static_cast<int64_t>(held()));
  return block->data();
}

void CachingHeap::free(void* data) {
  if (data == nullptr) return;
  const std::lock_guard lock(mutex_);
  Block* block = Block::of(data);
  using enum BlockState;
  if (block->state == kFree || block->state == kSmallFree || block->state == kPlannedFree)
    broken(data, "freed twice");
  if (block->state != kUsed && block->state != kSmallUsed && block->state != kPlannedUsed)
    broken(data, "overwritten in front");
  if (block->guarded) {
    check_fence(block, freed_damage_);
    std::memset(data, kPoison, block->requested);
  }
  count(block->purpose, -static_cast<int64_t>(block->requested), -1);
  for (ReplayArena* const arena : logging_) {
    if (block->log_number == arena->log_number_) arena->note_free(block);
  }
  if (block->state == kSmallUsed) {
    free_small(block);
  } else if (block->state == kPlannedUsed) {
    free_planned(block);
  } else {
    BlockPool::of(block).free(block);
  }
}

void CachingHeap::free_planned(Block* block) {
  PlannedMemory* const memory = block->planned;
  block->state = BlockState::kPlannedFree;
  memory->live.erase(reinterpret_cast<char*>(block) - memory->under->data());
  if (memory->abandoned) free_unused(memory);
}

void CachingHeap::free_unused(PlannedMemory* memory) {
  if (!memory->live.empty()) return;
  large_.free(memory->under);
  std::erase_if(planned_, [memory](const auto& each) { return each.get() == memory; });
}

void CachingHeap::trim_locked() {
  for (Slab* slab : open_slabs_) {
    for (Slab* next = nullptr; slab != nullptr; slab = next) {
      next = slab->next;
      if (slab->live > 0) continue;
      unlink(slab);
      medium_.free(block_under(slab));
    }
  }
  medium_.trim();
  large_.trim();
  allowance_ = 0;
}

void CachingHeap::trim() {
  const std::lock_guard lock(mutex_);
  trim_locked();
}

MemoryStatistics CachingHeap::statistics() const {
  const std::lock_guard lock(mutex_);
  MemoryStatistics result = statistics_;
  result.held_bytes = static_cast<int64_t>(held());
  return result;
}

void CachingHeap::reset_peaks() {
  const std::lock_guard lock(mutex_);
  for (MemoryUse& use : statistics_.purposes) use.peak = use.bytes;
  statistics_.total.peak = statistics_.total.bytes;
  statistics_.peak_held_bytes = static_cast<int64_t>(held());
}

void CachingHeap::set_poison(bool on) {
  const std::lock_guard lock(mutex_);
  poison_ = on;
}

void CachingHeap::fence(Block* block, size_t bytes) {
  std::memset(block->data(), kPoison, bytes);
  std::memset(block->data() + bytes, kGuard, kGuardBytes);
}

void CachingHeap::check_fence(Block* block, std::vector<std::string>& into) const {
  const char* guard = block->data() + block->requested;
  const auto intact = [](char c) { return static_cast<unsigned char>(c) == kGuard; };
  if (std::all_of(guard, guard + kGuardBytes, intact)) return;
  const auto at = std::find_if_not(guard, guard + kGuardBytes, intact) - guard;
  into.push_back(fmt::format("byte {} behind a block of {} bytes ({}) was written", at, block->requested,
                             name_of(block->purpose)));
}

std::vector<std::string> CachingHeap::damage() {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> found = std::move(freed_damage_);
  freed_damage_.clear();
  const auto check = [&](Block* block) {
    if (block->guarded) check_fence(block, found);
  };
  large_.for_each_used(check);
  for (const auto& memory : planned_) {
    for (const auto& [address, block] : memory->live) check(block);
  }
  medium_.for_each_used([&](Block* block) {
    if (block->requested > 0) return check(block);
    Slab* slab = slab_in(block);
    for (size_t i = 0; i < slab->begun; ++i) {
      if (entry(slab, i)->state == BlockState::kSmallUsed) check(entry(slab, i));
    }
  });
  return found;
}

}  // namespace longhaul
