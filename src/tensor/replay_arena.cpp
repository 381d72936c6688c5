#include "tensor/replay_arena.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "base/error.h"
#include "tensor/caching_heap.h"

namespace longhaul {
namespace {

// How far a request is looked for in the plan behind the place where the last one was: what a first step asks
// for once, because it is kept from then on, is passed over.
constexpr size_t kAhead = 32;
constexpr int64_t kUnit = 512;  // of addresses
constexpr int64_t kGuard = 64;  // of the heap's test mode

thread_local ReplayArena* arena_of_thread = nullptr;

}  // namespace

int64_t ReplayArena::room_of(int64_t bytes) {
  return (static_cast<int64_t>(sizeof(Block)) + bytes + kGuard + kUnit - 1) / kUnit * kUnit;
}

bool ReplayArena::is_place(int64_t address, int64_t bytes, int64_t block_bytes) {
  return address >= 0 && address % kUnit == 0 && bytes <= block_bytes &&
         address <= block_bytes - room_of(bytes);
}

ReplayArena* ReplayArena::current() { return arena_of_thread; }

ReplayArena* ReplayArena::current_of(const CachingHeap& heap) {
  return arena_of_thread != nullptr && &arena_of_thread->heap_ == &heap ? arena_of_thread : nullptr;
}

ReplayArena::~ReplayArena() { forget_plan(); }

bool ReplayArena::set_plan(ArenaPlan plan) {
  for (const ArenaPlan::Place& place : plan.places)
    LONGHAUL_ASSERT(place.address < 0 || is_place(place.address, place.bytes, plan.bytes),
                    "{} bytes at {} of a block of {}", place.bytes, place.address, plan.bytes);
  const std::lock_guard lock(heap_.mutex_);
  let_go();
  plan_ = std::move(plan);
  auto memory = std::make_unique<PlannedMemory>();
  heap_.planned_.reserve(heap_.planned_.size() + 1);
  heap_.trim_locked();  // so that the block's pages take the place of those that it makes superfluous
  BlockPool& pool = heap_.large_;
  memory->under = heap_.cut_from(pool, pool.rounded(sizeof(Block) + static_cast<size_t>(plan_.bytes)));
  if (memory->under == nullptr) return false;
  memory->under->purpose = MemoryPurpose::kOther;
  memory->under->guarded = false;
  memory->under->log_number = 0;
  memory->under->requested = 0;  // no user's: what lies in it is counted
  memory_ = memory.get();
  heap_.planned_.push_back(std::move(memory));
  return true;
}

void ReplayArena::forget_plan() {
  const std::lock_guard lock(heap_.mutex_);
  let_go();
}

void ReplayArena::let_go() {
  if (memory_ == nullptr) return;
  memory_->abandoned = true;
  heap_.free_unused(std::exchange(memory_, nullptr));
}

ReplayArena::Scope::Scope(ReplayArena& arena) : before_(std::exchange(arena_of_thread, &arena)) {
  arena.begin();
}

ReplayArena::Scope::~Scope() { std::exchange(arena_of_thread, before_)->end(); }

void ReplayArena::begin() {
  static std::atomic<uint64_t> logs{0};
  const std::lock_guard lock(heap_.mutex_);
  use_ = {};
  next_ = next_cut_ = 0;
  if (memory_ != nullptr) return;
  log_ = {};
  log_number_ = ++logs;
  heap_.logging_.push_back(this);
}

void ReplayArena::end() {
  const std::lock_guard lock(heap_.mutex_);
  log_number_ = 0;
  std::erase(heap_.logging_, this);
}

void ReplayArena::cut() {
  ReplayArena* const arena = arena_of_thread;
  if (arena == nullptr) return;
  const std::lock_guard lock(arena->heap_.mutex_);
  if (arena->log_number_ != 0) {
    arena->log_.cuts.push_back(++arena->log_.now);
  } else if (arena->next_cut_ < arena->plan_.cuts.size()) {
    arena->next_ = static_cast<size_t>(arena->plan_.cuts[arena->next_cut_++]);
  }
}

ReplayArena::Use ReplayArena::use() const {
  const std::lock_guard lock(heap_.mutex_);
  return use_;
}

void ReplayArena::note(Block* block, size_t bytes) {
  if (log_number_ == 0) return;
  block->log_number = log_number_;
  block->log_index = log_.requests.size();
  log_.requests.push_back({.bytes = static_cast<int64_t>(bytes), .begin = ++log_.now});
}

const ArenaPlan::Place* ReplayArena::find(int64_t bytes) {
  size_t end = std::min(next_ + kAhead, plan_.places.size());
  if (next_cut_ < plan_.cuts.size()) end = std::min(end, static_cast<size_t>(plan_.cuts[next_cut_]));
  for (size_t i = next_; i < end; ++i) {
    if (plan_.places[i].bytes != bytes) continue;
    next_ = i + 1;
    return &plan_.places[i];
  }
  return nullptr;
}

Block* ReplayArena::take(size_t bytes) {
  if (memory_ == nullptr) return nullptr;
  ++use_.requests;
  use_.bytes += static_cast<int64_t>(bytes);
  const auto to_the_heap = [&]() -> Block* {
    ++use_.unplanned;
    use_.unplanned_bytes += static_cast<int64_t>(bytes);
    return nullptr;
  };
  const ArenaPlan::Place* const place = find(static_cast<int64_t>(bytes));
  if (place == nullptr) return to_the_heap();
  if (place->address < 0) return nullptr;
  const int64_t room = room_of(place->bytes);
  const auto above = memory_->live.lower_bound(place->address);
  const auto end_of = [](const auto& entry) {
    return entry.first + static_cast<int64_t>(entry.second->size);
  };
  if ((above != memory_->live.end() && above->first < place->address + room) ||
      (above != memory_->live.begin() && end_of(*std::prev(above)) > place->address)) {
    ++use_.collided;
    return to_the_heap();
  }
  void* const at = memory_->under->data() + place->address;
  auto* const block = static_cast<Block*>(at);
  memory_->live.emplace_hint(above, place->address, block);  // before anything that cannot be undone
  return new (at)
      Block{.state = BlockState::kPlannedUsed, .size = static_cast<uint64_t>(room), .planned = memory_};
}

}  // namespace longhaul
