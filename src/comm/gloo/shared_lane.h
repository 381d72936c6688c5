// SharedLane: records on their way from one process to another of its machine, a ring in memory that both have mapped. One thread at a time puts records
// in, one takes them out; neither ever waits here. A record is 32 bytes and what it carries.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace longhaul::comm {

struct LaneRecord {
  enum Kind : uint32_t {
    kWhole,    // a message, all of it
    kRequest,  // a message to come, of `total` bytes
    kGrant,    // it has, or has found, its receiver: to whoever sent it
    kBytes,    // more of a message that was granted
  };
  uint32_t kind = kWhole, count = 0;  // bytes carried
  int64_t tag = 0;
  uint64_t id = 0;  // the sender's number of the message
  uint64_t total = 0;
};
static_assert(sizeof(LaneRecord) == 32);

class SharedLane {
 public:
  struct Head {  // where it lies: zeroed memory, then `capacity` bytes behind it
    alignas(64) std::atomic<uint64_t> written;
    alignas(64) std::atomic<uint64_t> taken;
    alignas(64) std::atomic<uint32_t> wanted;  // the writer found no room: whoever takes something is to tell him
  };
  SharedLane(std::byte* memory, size_t capacity);  // capacity: a power of two, 1,024 or more
  static size_t bytes(size_t capacity) { return sizeof(Head) + capacity; }

  // The writer's. Of what a record may carry now the most; −1: not even the record alone fits.
  int64_t room() const;
  bool put(const LaneRecord& record, const std::byte* carried);  // false: no room, nothing done
  void want_room() { head_->wanted.store(1); }

  // The reader's.
  bool peek(LaneRecord& record) const;                   // the next one, which stays
  void take(const LaneRecord& record, std::byte* into);  // it goes; into: null for nobody
  bool room_was_wanted() { return head_->wanted.load() != 0 && head_->wanted.exchange(0) != 0; }

 private:
  void copy_in(uint64_t at, const std::byte* from, size_t count);
  void copy_out(uint64_t at, std::byte* into, size_t count) const;
  Head* head_;
  std::byte* ring_;
  size_t capacity_;
};

}  // namespace longhaul::comm
