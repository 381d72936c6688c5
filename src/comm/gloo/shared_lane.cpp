#include "comm/gloo/shared_lane.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace longhaul::comm {
namespace {

size_t padded_size(size_t carried) {
  return sizeof(LaneRecord) + (carried + sizeof(LaneRecord) - 1) / sizeof(LaneRecord) * sizeof(LaneRecord);
}

}  // namespace

SharedLane::SharedLane(std::byte* memory, size_t capacity)
    : head_(reinterpret_cast<Head*>(memory)), ring_(memory + sizeof(Head)), capacity_(capacity) {
  LONGHAUL_ASSERT(capacity >= 1024 && (capacity & (capacity - 1)) == 0, "{}", capacity);
}

int64_t SharedLane::room() const {
  // after want_room()
  const uint64_t used = head_->written.load(std::memory_order_relaxed) - head_->taken.load();
  return static_cast<int64_t>(capacity_ - used) - static_cast<int64_t>(sizeof(LaneRecord));
}

bool SharedLane::put(const LaneRecord& record, const std::byte* carried) {
  if (room() < static_cast<int64_t>(padded_size(record.count) - sizeof(LaneRecord))) return false;
  const uint64_t at = head_->written.load(std::memory_order_relaxed);
  copy_in(at, reinterpret_cast<const std::byte*>(&record), sizeof record);
  copy_in(at + sizeof record, carried, record.count);
  head_->written.store(at + padded_size(record.count), std::memory_order_release);
  return true;
}

bool SharedLane::peek(LaneRecord& record) const {
  const uint64_t at = head_->taken.load(std::memory_order_relaxed);
  if (head_->written.load(std::memory_order_acquire) == at) return false;
  copy_out(at, reinterpret_cast<std::byte*>(&record), sizeof record);
  return true;
}

void SharedLane::take(const LaneRecord& record, std::byte* into) {
  const uint64_t at = head_->taken.load(std::memory_order_relaxed);
  if (into) copy_out(at + sizeof record, into, record.count);
  head_->taken.store(at + padded_size(record.count));  // before the writer's wish for room is looked at
}

void SharedLane::copy_in(uint64_t at, const std::byte* from, size_t count) {
  if (count == 0) return;
  const size_t place = at & (capacity_ - 1), first = std::min(count, capacity_ - place);
  std::memcpy(ring_ + place, from, first);
  std::memcpy(ring_, from + first, count - first);
}

void SharedLane::copy_out(uint64_t at, std::byte* into, size_t count) const {
  if (count == 0) return;
  const size_t place = at & (capacity_ - 1), first = std::min(count, capacity_ - place);
  std::memcpy(into, ring_ + place, first);
  std::memcpy(into + first, ring_, count - first);
}

}  // namespace longhaul::comm
