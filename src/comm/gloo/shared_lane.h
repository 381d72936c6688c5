// SharedLane: a ring buffer of records from one process to another on the same machine, in memory that both
// have mapped. One thread at a time writes records, one reads them; neither ever waits here. A record is a
// header of 32 bytes and its payload.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace longhaul::comm {

struct LaneRecord {
  enum Kind : uint32_t {
    kWhole,    // a complete message
    kRequest,  // announces a message of `total` bytes
    kGrant,    // tells the sender that a receive for the message is posted
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
  struct Head {  // the start of the shared memory: zeroed, followed by `capacity` bytes
    alignas(64) std::atomic<uint64_t> written;
    alignas(64) std::atomic<uint64_t> taken;
    // The writer found no room: the reader must notify it after taking a record.
    alignas(64) std::atomic<uint32_t> wanted;
  };
  SharedLane(std::byte* memory, size_t capacity);  // capacity: a power of two, 1,024 or more
  static size_t bytes(size_t capacity) { return sizeof(Head) + capacity; }

  // For the writer. room(): the largest payload that a record can have now; −1: not even a record without
  // payload fits.
  int64_t room() const;
  bool put(const LaneRecord& record, const std::byte* carried);  // false: no room, nothing done
  void want_room() { head_->wanted.store(1); }

  // For the reader.
  bool peek(LaneRecord& record) const;                   // reads the next record without removing it
  void take(const LaneRecord& record, std::byte* into);  // removes the record; into: null drops its payload
  bool room_was_wanted() { return head_->wanted.load() != 0 && head_->wanted.exchange(0) != 0; }

 private:
  void copy_in(uint64_t at, const std::byte* from, size_t count);
  void copy_out(uint64_t at, std::byte* into, size_t count) const;
  Head* head_;
  std::byte* ring_;
  size_t capacity_;
};

}  // namespace longhaul::comm
